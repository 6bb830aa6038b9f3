"""A lease around each step of a job, so that two schedulers do not do the same work.

    rewrite/<topic id>   build_index, compact and merge_segments share this lease, because they
                         replace the same segments
    <job>/<topic id>     any other job

A thread renews the lease while the step runs; afterwards the lease is released. If its owner dies,
it expires after five minutes.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

from sparklog.errors import SparklogError
from sparklog.maintenance.job import JobContext
from sparklog.metadata.leases import LEASE_TTL_MS, acquire, release
from sparklog.metadata.state.edit import Lease

REWRITING: Final = frozenset({"build_index", "compact", "merge_segments"})


def new_owner() -> str:
    """Return a name for this process that no other process has."""
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"


class Leases:
    """The leases that one process holds. `renewal_ms` is the time between two renewals."""

    def __init__(
        self, context: JobContext, owner: str | None = None, renewal_ms: int = LEASE_TTL_MS // 5
    ) -> None:
        self._context = context
        self._owner = owner or new_owner()
        self._renewal_ms = renewal_ms

    @contextmanager
    def held(self, job: str, topic: str) -> Iterator[Lease | None]:
        """Hold the lease of a job on a topic while the block runs, and yield None.

        If another owner holds it, yield the owner's lease: the caller then skips its work. If the
        metadata log cannot be read or written, yield None without a lease: leases only save work.
        """
        try:
            name = self._name(job, topic)
            lease = self._acquired(name)
        except SparklogError:
            yield None
            return
        if lease.owner != self._owner:
            yield lease
            return
        ended = Event()
        renewing = Thread(target=self._renew, args=(name, ended), daemon=True)
        renewing.start()
        try:
            yield None
        finally:
            ended.set()
            renewing.join()
            with suppress(SparklogError):
                release(self._context.catalog.log, name, self._owner)

    def _name(self, job: str, topic: str) -> str:
        described = self._context.catalog.topics().get(topic)
        kind = "rewrite" if job in REWRITING else job
        return f"{kind}/{described.topic_id if described else topic}"

    def _acquired(self, name: str) -> Lease:
        now_ms = self._context.clock.now_ms()
        return acquire(self._context.catalog.log, name, self._owner, now_ms)

    def _renew(self, name: str, ended: Event) -> None:
        """Renew the lease until the step has ended."""
        while not ended.wait(self._renewal_ms / 1000):
            with suppress(SparklogError):
                self._acquired(name)
