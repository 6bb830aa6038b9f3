"""Tidying: an instance merges the ends of the logs that it leads, and compacts its groups' commits.

    topics    a run a second: their tails have a small bound
    groups    __consumer_offsets: every tenth run, and in between the longest tails

So a log dir has few segments even if only gateways write to it and no scheduler runs, and another
instance reads a partition of __consumer_offsets quickly. A gateway runs no other job.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import SparklogError
from sparklog.fleet import LocalFleet
from sparklog.garbage import seldom_collected
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.tail import merge_tails, merge_tails_in_turn
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.image import Image, PartitionLog
from sparklog.model import TopicDescription
from sparklog.pace import paced
from sparklog.storage.at_once import in_background
from sparklog.wire.instances import Instances, leader_of

INTERVAL_S: Final = 1.0
"""The pause between two runs."""
RESTS_MAX_S: Final = 1.0
"""The most time that the merges of a run rest (`sparklog.pace`). If there is more to do, they go on
without rests, so that no tail grows beyond its bound."""
GROUPS_RESTS_MAX_S: Final = 5.0
"""The same for __consumer_offsets: its tails may have more slices, so their merges may take
longer."""
COMPACT_LOOKS: Final = 10
"""Every tenth run also looks for partitions to compact: 16 MiB do not come in a second."""
GROUPS_RUNS: Final = 10
"""The partitions of __consumer_offsets are merged once in this many runs: every entry with commits
of offsets adds a slice to most of them (decision 51)."""
GROUPS_TOGETHER: Final = 10
"""So many of them are merged by one image; then the tails of the others are looked at anew."""
DIRTY_BYTES: Final = 16 * 1024 * 1024
"""A partition with so many dirty bytes is compacted: its next coordinator has to read them."""
log: Final = logging.getLogger("sparklog.gateway")


class Tidying:
    """Merges tails on threads of its own, while the event loop runs."""

    def __init__(self, catalog: Catalog, instances: Instances) -> None:
        self._catalog = catalog
        self._instances = instances
        self._threads = ThreadPoolExecutor(2, "tidy")
        self._looks = 0
        self._counting = Lock()
        """Held while `merged` grows: both threads merge."""
        self.merged = 0
        """Segments that were merged away since the start."""
        self.compacted = 0
        """Partitions of __consumer_offsets that were compacted since the start."""
        self.is_ending = False
        """True when the gateway ends. A run then stops after its present commit."""

    def start(self) -> None:
        """Begin the runs."""
        loop = asyncio.get_running_loop()
        works = (self.tidy_topics, self.tidy_groups)
        self._tasks = [loop.create_task(self._run(work)) for work in works]

    async def close(self) -> None:
        """Stop, after the commits that have begun."""
        self.is_ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)

    async def _run(self, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(INTERVAL_S)
            await asyncio.shield(loop.run_in_executor(self._threads, work))

    def tidy_topics(self) -> None:
        """Merge the tails of topics that are due. Errors are only logged, here and below."""
        with paced(RESTS_MAX_S):
            self._work(self._merge)

    def tidy_groups(self) -> None:
        """Merge and compact the partitions of __consumer_offsets that are due."""
        self._looks += 1
        with paced(GROUPS_RESTS_MAX_S):
            self._work(self._merge_groups)
        if self._looks % COMPACT_LOOKS == 0:
            self._work(self._compact)

    def _work(self, work: Callable[[Image], None]) -> None:
        try:
            with in_background(), seldom_collected():
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
            if self.is_ending:
                return
            is_own = leader_of(f"{OFFSETS_TOPIC}-{number}", alive).node_id == own
            if is_own and _dirty_bytes(one) >= DIRTY_BYTES:
                outcome = compact_partition(context, topic, number)
                self.compacted += outcome is not None
                for problem in () if outcome is None else outcome.problems:
                    log.warning("%s-%d was not compacted: %s", OFFSETS_TOPIC, number, problem)

    def _merge(self, image: Image) -> None:
        """Merge the tails of all topics that this instance leads, without __consumer_offsets."""
        led = [one for one in image.names.values() if one.name != OFFSETS_TOPIC]
        context = JobContext(self._catalog, LocalFleet())
        self._told(merge_tails(context, image, [one for one in led if self._leads(one)]))

    def _merge_groups(self, image: Image) -> None:
        """Merge the tails of __consumer_offsets if this instance leads it."""
        topic = image.names.get(OFFSETS_TOPIC)
        if topic is None or not self._leads(topic):
            return
        context, is_turn = JobContext(self._catalog, LocalFleet()), self._looks % GROUPS_RUNS == 0
        for first in range(0, topic.num_partitions, GROUPS_TOGETHER):
            if self.is_ending:
                return
            image, some = self._catalog.image(), range(first, first + GROUPS_TOGETHER)
            self._told(merge_tails_in_turn(context, image, topic, some, is_turn=is_turn))

    def _leads(self, topic: TopicDescription) -> bool:
        own = self._instances.own.node_id
        return leader_of(topic.topic_id, self._instances.alive).node_id == own

    def _told(self, outcomes: Iterable[Outcome]) -> None:
        """Count merges, and log their problems; stop between two merges if the gateway ends."""
        for outcome in outcomes:
            with self._counting:
                self.merged += outcome.counts["segments"]
            for problem in outcome.problems:
                log.warning("a tail was not merged: %s", problem)
            if self.is_ending:
                return


def _dirty_bytes(log: PartitionLog) -> int:
    """Return the size of the segments that end above the cleaner offset."""
    first = log.segments.first_ending_after(log.cleaner_offset)
    return 0 if first is None else int(log.segments.log_bytes[first:].sum())
