"""Rests of background work, which shares Python's lock with the requests of a service.

Two busy threads get half of the lock each, however often they must release it. So work in the
background is done in small pieces, with rests between them:

    with paced(most_s):               on the thread that works
        for one in rested(pieces):    after a piece of a millisecond or more the thread sleeps
            ...

Only a service rests (`let_rest`): a job or a command has no requests to make room for. The rests
delay the work by at most `most_s` seconds. If several works go on at the same time, each rests as
many times as long: together they take no more than one. A thread must not rest while it holds a
lock.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

SPELL_S: Final = 0.001
"""The CPU time that a thread works before it rests."""
REST: Final = 4
"""A rest lasts this many times as long as the work before it."""
REST_MAX_S: Final = 0.05
"""The longest rest of a work that is alone."""

One = TypeVar("One")


class Pace:
    """The rests of one work, on one thread."""

    def __init__(
        self,
        most_s: float,
        *,
        used_s: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`most_s` is the limit of all rests together; `used_s` returns the thread's CPU time.

        All times are in seconds.
        """
        self._left_s = most_s
        self._used_s = used_s
        self._sleep = sleep
        self._rested_s = used_s()

    def rest(self, works: int = 1) -> None:
        """Rest if the thread has worked for SPELL_S since its last rest, and if time is left.

        `works` is how many works of the process go on, this one among them.
        """
        worked_s = self._used_s() - self._rested_s
        if worked_s < SPELL_S or not self._left_s:
            return
        rest_s = min(works * min(REST * worked_s, REST_MAX_S), self._left_s)
        self._left_s -= rest_s
        self._sleep(rest_s)
        self._rested_s = self._used_s()


class _Process:
    """The state of the whole process."""

    is_service = False
    paces: frozenset[Pace] = frozenset()
    """The rests of all works that go on."""


class _Here(threading.local):
    """The state of the present thread."""

    pace: Pace | None = None


_process: Final = _Process()
_here: Final = _Here()
_lock: Final = threading.Lock()
"""Held while `_process.paces` changes."""


def let_rest() -> None:
    """Let background work of this process rest from now on: it serves requests."""
    _process.is_service = True


def rest_no_more() -> None:
    """End all rests, also those of work that has begun: the service ends."""
    _process.is_service = False


@contextmanager
def paced(most_s: float) -> Iterator[None]:
    """Let this thread rest between the pieces of its work until the block ends.

    Outside of a service it does not rest. `most_s` is the limit of all rests together, in seconds.
    """
    if not _process.is_service:
        yield
        return
    pace = _here.pace = Pace(most_s)
    with _lock:
        _process.paces |= {pace}
    try:
        yield
    finally:
        _here.pace = None
        with _lock:
            _process.paces -= {pace}


def rest() -> None:
    """Rest if it is time to. Call it between pieces of work, never while you hold a lock."""
    if _here.pace is not None and _process.is_service:
        _here.pace.rest(len(_process.paces))


def rested(pieces: Iterable[One]) -> Iterator[One]:
    """Yield each piece, and rest between two if it is time to."""
    for one in pieces:
        yield one
        rest()
