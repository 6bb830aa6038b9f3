"""When a job is due: once in its interval, for all schedulers of a log dir together.

    schedule/<job>/<interval>   a lease in the metadata log; when it expires, the job is due again

    a run begins     the lease expires in an hour, or after the interval if that is shorter
    the run ended    the lease expires one interval after the beginning of the run

So a run that is cut off is repeated within the hour, several schedulers share one timetable, and a
scheduler that is started again continues with it. Like every lease, it only saves work. A job with
an interval below ten minutes has no such lease: it is due when a scheduler starts.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sparklog.clock import Clock
from sparklog.errors import SparklogError
from sparklog.metadata.leases import acquire
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.edit import Lease

KEPT_MS: Final = 10 * 60 * 1000
"""The shortest interval that has a lease: a run then costs two commits."""
RETRY_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Timetable:
    """The timetable of one log dir, as one process reads and writes it."""

    log: MetadataLog
    clock: Clock
    owner: str

    def claim(self, job: str, interval_ms: int) -> int:
        """Claim a run of a job that seems due; return 0.

        If another process, or this scheduler before its restart, has claimed the run already, claim
        nothing, and return the milliseconds until the job is due. A claim that cannot be committed,
        because of a full disk, say, holds up no run: returns 0.
        """
        if interval_ms < KEPT_MS:
            return 0
        now_ms = self.clock.now_ms()
        ttl_ms = min(interval_ms, RETRY_MS)
        try:
            lease = self._acquired(job, interval_ms, now_ms, ttl_ms)
        except SparklogError:
            return 0
        return 0 if lease.owner == self.owner else lease.expires_ms - now_ms

    def ended(self, job: str, interval_ms: int, started_ms: int) -> None:
        """Note that a claimed run has ended, if that can be committed."""
        if interval_ms >= KEPT_MS:
            with suppress(SparklogError):
                self._acquired(job, interval_ms, started_ms, interval_ms)

    def _acquired(self, job: str, interval_ms: int, now_ms: int, ttl_ms: int) -> Lease:
        # With another interval, a job has another lease.
        name = f"schedule/{job}/{interval_ms}"
        return acquire(self.log, name, self.owner, now_ms, ttl_ms=ttl_ms, longest_ms=interval_ms)
