"""Tidying: an instance merges the ends of the logs that it leads, and compacts its groups' commits.

So a log dir has few segments even if only gateways write to it and no scheduler runs, and another
instance reads a partition of __consumer_offsets quickly. A gateway runs no other job.
"""

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import SparklogError
from sparklog.fleet import LocalFleet
from sparklog.garbage import seldom_collected
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.tail import merge_tails, merge_tails_in_turn
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.image import Image, PartitionLog
from sparklog.pace import paced
from sparklog.storage.at_once import in_background
from sparklog.wire.instances import Instances, leader_of

INTERVAL_S: Final = 1.0
"""The pause between two runs."""
RESTS_MAX_S: Final = 1.0
"""The most time that a run rests (`sparklog.pace`). A longer run does its remaining work without
rests, so that no tail grows beyond its bound."""
COMPACT_LOOKS: Final = 10
"""Every tenth run also looks for partitions to compact: 16 MiB do not come in a second."""
GROUPS_RUNS: Final = 10
"""Each partition of __consumer_offsets is merged once in this many runs: every entry with commits
of offsets adds a slice to most of them (decision 51)."""
DIRTY_BYTES: Final = 16 * 1024 * 1024
"""A partition with so many dirty bytes is compacted: its next coordinator has to read them."""
log: Final = logging.getLogger("sparklog.gateway")


class Tidying:
    """Merges tails on a thread of its own, while the event loop runs."""

    def __init__(self, catalog: Catalog, instances: Instances) -> None:
        self._catalog = catalog
        self._instances = instances
        self._thread = ThreadPoolExecutor(1, "tidy")
        self._looks = 0
        self.merged = 0
        """Segments that were merged away since the start."""
        self.compacted = 0
        """Partitions of __consumer_offsets that were compacted since the start."""

    def start(self) -> None:
        """Begin the runs."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop, after the present run."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(INTERVAL_S)
            await asyncio.shield(loop.run_in_executor(self._thread, self.tidy))

    def tidy(self) -> None:
        """Merge and compact what is due. Errors are only logged."""
        self._looks += 1
        compacts = self._looks % COMPACT_LOOKS == 0
        for work in (self._merge, self._compact) if compacts else (self._merge,):
            try:
                with in_background(), seldom_collected(), paced(RESTS_MAX_S):
                    work(self._catalog.image())
            except SparklogError as error:
                log.warning("a merge or compaction failed: %s", error)
            except Exception:  # a bug must not end the tidying
                log.exception("a merge or compaction failed")

    def _compact(self, image: Image) -> None:
        """Compact partitions of __consumer_offsets that this instance coordinates."""
        # Imported here: otherwise the gateway would load its kernels before it listens.
        from sparklog.maintenance.compact import compact_partition

        topic = image.names.get(OFFSETS_TOPIC)
        opened = None if topic is None else image.topic(topic.topic_id)
        if topic is None or opened is None or not opened.is_open:
            return
        alive, own = self._instances.alive, self._instances.own.node_id
        context = JobContext(self._catalog, LocalFleet())
        for number, one in sorted(opened.partitions.items()):
            is_own = leader_of(f"{OFFSETS_TOPIC}-{number}", alive).node_id == own
            if is_own and _dirty_bytes(one) >= DIRTY_BYTES:
                outcome = compact_partition(context, topic, number)
                self.compacted += outcome is not None
                for problem in () if outcome is None else outcome.problems:
                    log.warning("%s-%d was not compacted: %s", OFFSETS_TOPIC, number, problem)

    def _merge(self, image: Image) -> None:
        alive, own = self._instances.alive, self._instances.own.node_id
        led = [
            topic
            for topic in image.names.values()
            if leader_of(topic.topic_id, alive).node_id == own
        ]
        context = JobContext(self._catalog, LocalFleet())
        self._told(merge_tails(context, image, [one for one in led if one.name != OFFSETS_TOPIC]))
        for topic in led:
            if topic.name == OFFSETS_TOPIC:
                turn = range(self._looks % GROUPS_RUNS, topic.num_partitions, GROUPS_RUNS)
                self._told(merge_tails_in_turn(context, image, topic, turn))

    def _told(self, outcomes: Iterable[Outcome]) -> None:
        """Count merges, and log their problems."""
        for outcome in outcomes:
            self.merged += outcome.counts["segments"]
            for problem in outcome.problems:
                log.warning("a tail was not merged: %s", problem)


def _dirty_bytes(log: PartitionLog) -> int:
    """Return the size of the segments that end above the cleaner offset."""
    first = log.segments.first_ending_after(log.cleaner_offset)
    return 0 if first is None else int(log.segments.log_bytes[first:].sum())
