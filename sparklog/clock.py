"""The only place that reads a clock. Times are milliseconds since the epoch, as Kafka's are."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time to code with I/O. Core code has no clock: it gets `now_ms` as a number."""

    def now_ms(self) -> int:
        """Return the time of the wall clock, in ms since the epoch."""
        ...

    def boot_ms(self) -> int:
        """Return the ms since the machine started, sleep included: for deadlines and ages.

        Nobody can set this clock, so it never jumps.
        """
        ...

    def sleep_ms(self, ms: float) -> None:
        """Wait for `ms` milliseconds."""
        ...


def age_s(since_ms: int | None, now_ms: int) -> int | None:
    """Return the whole seconds since a time; 0 for a later time, None for None."""
    return None if since_ms is None else max(now_ms - since_ms, 0) // 1000


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def sleep_ms(self, ms: float) -> None:
        time.sleep(ms / 1000)


class ManualClock:
    """A clock that only its owner moves: for tests, and to plan as of another time."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._boot_ms = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def boot_ms(self) -> int:
        return int(self._boot_ms)

    def sleep_ms(self, ms: float) -> None:
        """Move forward by `ms`, at least 1, at once: nothing sleeps."""
        self.advance(max(1, round(ms)))

    def advance(self, ms: int) -> None:
        """Move forward by `ms`."""
        self._now_ms += ms
        self._boot_ms += ms

    def set_wall(self, now_ms: int) -> None:
        """Set the wall clock, as an administrator may. `boot_ms` does not change."""
        self._now_ms = now_ms
