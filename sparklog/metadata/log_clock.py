"""A clock that is never before the newest entry that a metadata log has read.

The clocks of machines differ. So a time that is compared with the times of other processes, such as
the commit of an offset with the creation of its topic, comes from this clock.
"""

from sparklog.clock import Clock
from sparklog.metadata.follow import FollowedLog


class LogClock:
    """A clock of one log dir (a `Clock`)."""

    def __init__(self, clock: Clock, log: FollowedLog) -> None:
        self._clock = clock
        self._log = log

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch; not before the newest entry that was read."""
        return max(self._clock.now_ms(), self._log.last_ms)

    def boot_ms(self) -> int:
        """Milliseconds since the machine started, sleep included."""
        return self._clock.boot_ms()

    def sleep_ms(self, ms: float) -> None:
        """Wait for `ms` milliseconds."""
        self._clock.sleep_ms(ms)
