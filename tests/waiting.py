"""Waiting for something that another thread, process or task does.

A loop of a test's own would have a body that some runs never enter, and coverage counts it.
"""

import asyncio
import time
from collections.abc import Callable
from threading import Event

MOST_S = 120.0
LOOK_EVERY_S = 0.005
LOOK_AT_LEAST_EVERY_S = 0.1
_NEVER = Event()
"""It is never set: `wait` is a pause. Unit tests may not call `time.sleep`."""


def until(is_so: Callable[[], bool], most_s: float = MOST_S) -> None:
    """Look again and again, and return when it is so. Raises TimeoutError when that takes too long.

    It looks every 5 ms at first. Later it pauses for a tenth of the time that it has waited, for
    0.1 s at most: a look may be a request, and a wait of ten seconds would be 2,000 of them.
    """
    begin = time.monotonic()
    while not is_so():
        waited = time.monotonic() - begin
        if waited > most_s:
            raise TimeoutError(f"not so within {most_s} s")
        _NEVER.wait(min(max(LOOK_EVERY_S, waited / 10), LOOK_AT_LEAST_EVERY_S))


async def turns_until(is_so: Callable[[], bool], most_s: float = MOST_S) -> None:
    """As `until`, in turns of the event loop: look at every one."""
    async with asyncio.timeout(most_s):
        while not is_so():
            await asyncio.sleep(0)
