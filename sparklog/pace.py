"""Rests of background work, which shares Python's lock with the requests of a service.

Two busy threads get half of the lock each, however often they must release it. So work in the
background is done in small pieces, with rests between them:

    with paced(most_s):               on the thread that works
        for one in rested(pieces):    after a piece of a millisecond or more the thread sleeps
            ...

Only a service rests (`let_rest`): a job or a command has no requests to make room for. The rests
delay the work by at most `most_s` seconds. A thread must not rest while it holds a lock.
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
REST_MAX_S: Final = 0.02
"""The longest rest."""

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

    def rest(self) -> None:
        """Rest if the thread has worked for SPELL_S since its last rest, and if time is left."""
        worked_s = self._used_s() - self._rested_s
        if worked_s < SPELL_S or not self._left_s:
            return
        rest_s = min(REST * worked_s, REST_MAX_S, self._left_s)
        self._left_s -= rest_s
        self._sleep(rest_s)
        self._rested_s = self._used_s()


class _Process:
    """The state of the whole process."""

    is_service = False


class _Here(threading.local):
    """The state of the present thread."""

    pace: Pace | None = None


_process: Final = _Process()
_here: Final = _Here()


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
    _here.pace = Pace(most_s) if _process.is_service else None
    try:
        yield
    finally:
        _here.pace = None


def rest() -> None:
    """Rest if it is time to. Call it between pieces of work, never while you hold a lock."""
    if _here.pace is not None and _process.is_service:
        _here.pace.rest()


def rested(pieces: Iterable[One]) -> Iterator[One]:
    """Yield each piece, and rest between two if it is time to."""
    for one in pieces:
        yield one
        rest()
