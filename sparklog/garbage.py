"""Python's collector of cyclic garbage, for work that makes many objects and no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

COLLECT_EVERY: Final = 100_000
"""So many new objects lie between two collections at least."""
SERVICE_COLLECTS_EVERY: Final = 20_000
"""The number of new objects after which a service collects. Requests leave little garbage; with
Python's 700 collections took a third of the time of an offset commit."""


class _Calls:
    """How many threads are in `seldom_collected`, and what they found."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.known = gc.get_threshold()


_CALLS: Final = _Calls()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector run only after every COLLECT_EVERY new objects. For any number of threads.

    It looks at all objects that it knows, so where each record makes an object it takes as long as
    the rest of the work.
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


def freeze_loaded() -> None:
    """Let the collector never look at what is loaded now, and run seldom from now on.

    Modules and kernels are no garbage. A thread in `seldom_collected` changes nothing of it when it
    leaves.
    """
    gc.collect()
    gc.freeze()
    with _CALLS.lock:
        _CALLS.known = (SERVICE_COLLECTS_EVERY, *gc.get_threshold()[1:])
        if not _CALLS.count:
            gc.set_threshold(*_CALLS.known)
