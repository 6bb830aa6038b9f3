"""fsyncs side by side: a file system's journal makes one commit for all threads that wait.

Twelve new files in four directories, on a disk that others use too: 75 ms one after another, 8 ms
on eight threads.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from threading import BoundedSemaphore
from typing import Final

THREADS: Final = 8
WAITING_MAX: Final = 64
"""How many calls of `begin` wait for a thread at most; each may hold a descriptor."""


def each_at_once(work: Callable[[str], None], paths: Sequence[str]) -> None:
    """Call `work` with every path, several at a time; raises the first error, in their order.

    When it returns or raises, nothing is under way any more.
    """
    calls = [_threads().submit(work, path) for path in paths]
    wait(calls)
    for call in calls:
        call.result()


def begin(work: Callable[[], None]) -> "Future[None]":
    """Let a thread do `work`; the returned future ends with it, or raises its error.

    Blocks while WAITING_MAX others are under way. Not to be called by `work` itself.
    """
    room = _room()
    room.acquire()
    call = _threads().submit(work)
    call.add_done_callback(lambda _: room.release())
    return call


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "sync")


@cache
def _room() -> BoundedSemaphore:
    return BoundedSemaphore(WAITING_MAX)


# Threads do not survive a fork.
os.register_at_fork(after_in_child=_threads.cache_clear)
os.register_at_fork(after_in_child=_room.cache_clear)
