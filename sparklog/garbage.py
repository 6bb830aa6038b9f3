"""Python's collector of cyclic garbage: it runs seldom, and errors do not wait for it."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Final, TypeVar

COLLECT_EVERY: Final = 100_000
"""At least this many new objects lie between two collections."""
SERVICE_COLLECTS_EVERY: Final = 5_000
"""The number of new objects after which a service collects, which takes a millisecond. Requests
leave little garbage. With Python's default of 700, the collector took a third of the time of an
offset commit."""
ALL_EVERY_S: Final = 600
"""How often a service collects among all objects, also those that a collection has exempted."""

Error = TypeVar("Error", bound=BaseException)


class _Calls:
    """The number of threads in `seldom_collected`, and the thresholds to restore at the end."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.known = gc.get_threshold()


_CALLS: Final = _Calls()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector run only after COLLECT_EVERY new objects, in this block.

    The collector looks at every object that it tracks. If each record makes an object, that takes
    as long as the rest of the work. Any number of threads may be in such blocks.
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
    """Let the collector look only at new objects, and run seldom, from now on.

    A service keeps an image of the metadata: hundreds of thousands of objects. Few of them become
    garbage, and hardly any in a cycle. Python's collector looks at each object up to three times.
    The third look takes a tenth of a second, in which all threads stand still. So a collection
    exempts the objects that it has found in use. Every ALL_EVERY_S a thread collects among all
    objects: this frees cycles that were in use during an earlier collection.
    """
    look_at_all()
    gc.callbacks.append(_settle)
    with _CALLS.lock:
        _CALLS.known = (SERVICE_COLLECTS_EVERY, *gc.get_threshold()[1:])
        if not _CALLS.count:
            gc.set_threshold(*_CALLS.known)
    # Python's own full collection never comes: an exemption also resets the count that leads to it.
    Thread(target=_look_at_all_now_and_then, name="collector", daemon=True).start()


def look_at_all() -> None:
    """Collect among all objects, and exempt those in use."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _settle(phase: str, _: Mapping[str, int]) -> None:
    """Exempt the objects that a collection has found in use. One of `gc.callbacks`."""
    if phase == "stop":
        gc.freeze()


def _look_at_all_now_and_then(sleep: Callable[[float], None] = time.sleep) -> None:
    while True:
        sleep(ALL_EVERY_S)
        look_at_all()


def without_frames(error: Error) -> Error:
    """Take traceback, cause and context from an error; return the error.

    A traceback has the frames of the calls, with all their objects. If one of these objects holds
    the error, all of them stay in memory until Python's collector runs.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
