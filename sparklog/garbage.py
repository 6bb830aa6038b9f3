"""Python's collector of cyclic garbage: it runs seldom, and errors do not wait for it."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Final, TypeVar

COLLECT_EVERY: Final = 100_000
"""At least this many new objects lie between two collections."""
SERVICE_COLLECTS_EVERY: Final = 5_000
"""The number of new objects after which a service collects, which takes a millisecond. Requests
leave little garbage. With Python's default of 700, the collector took a third of the time of an
offset commit."""
ALL_EVERY_S: Final = 600
"""How often a service's collector looks at all objects; in between it passes over settled ones."""


Error = TypeVar("Error", bound=BaseException)


class _Calls:
    """The number of threads in `seldom_collected`, and the thresholds to restore after the last."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.known = gc.get_threshold()


_CALLS: Final = _Calls()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector run only after every COLLECT_EVERY new objects. For any number of threads.

    The collector looks at every object that it tracks. If each record makes an object, that takes
    as long as the rest of the work.
    """
    with _CALLS.lock:
        if not _CALLS.count:
            _CALLS.known = gc.get_threshold()
            gc.set_threshold(max(COLLECT_EVERY, _CALLS.known[0]), *_CALLS.known[1:])
        _CALLS.count += 1
    try:
        yield
    finally:
        with _CALLS.lock:
            _CALLS.count -= 1
            if not _CALLS.count:
                gc.set_threshold(*_CALLS.known)


def collect_as_a_service() -> None:
    """Exempt all present objects from the collector, and let it run seldom from now on.

    The present objects are modules and kernels, never garbage. The setting stays when a thread
    leaves `seldom_collected`.
    """
    gc.collect()
    gc.freeze()
    gc.callbacks.append(Settled())
    with _CALLS.lock:
        _CALLS.known = (SERVICE_COLLECTS_EVERY, *gc.get_threshold()[1:])
        if not _CALLS.count:
            gc.set_threshold(*_CALLS.known)


class Settled:
    """Exempts the objects that a collection found in use. One of `gc.callbacks`.

    A service keeps an image of the metadata: hundreds of thousands of objects, of which few become
    garbage, and hardly any in a cycle. Collections would look at them three times, and stop all
    threads meanwhile, for a tenth of a second at last. So a collection looks only at what is new
    since the one before. Every ALL_EVERY_S a full one looks at all objects; cycles that settled are
    freed then.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._all_at_s = now_s() + ALL_EVERY_S

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Take the collector's word that a collection starts or stops (`gc.callbacks`)."""
        if phase == "stop":
            gc.freeze()
        elif info["generation"] == _FULL and self._now_s() >= self._all_at_s:
            self._all_at_s = self._now_s() + ALL_EVERY_S
            gc.unfreeze()


_FULL: Final = 2
"""The generation of a full collection."""


def without_frames(error: Error) -> Error:
    """Take the traceback from an error, and the errors that led to it; return the error.

    A traceback has the frames of the calls, with all their objects. If one of these holds the
    error, all stay in memory until Python's collector runs.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
