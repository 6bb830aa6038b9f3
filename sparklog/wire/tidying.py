"""The housekeeper of a gateway: merges the ends of logs, compacts, and folds.

    topics    those whose partition 0 the gateway leads (`leader_of`), a round every other second:
              their tails have a small bound
    groups    __consumer_offsets, a round a second: every tenth one merges all tails and compacts,
              those in between merge the longest tails
    vacuum    a round every five minutes: what merges and commits have left, where the job `vacuum`
              does not run (`vacuum_overdue`)
    fold      of the metadata log, on the main thread (`keep_house_while`)

So a log dir has few segments and few rows even if only gateways write to it and no scheduler runs,
and another instance reads a partition of __consumer_offsets quickly. A gateway runs no other job.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Event, Thread
from typing import Final

from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import SparklogError
from sparklog.fleet import LocalFleet
from sparklog.garbage import seldom_collected
from sparklog.log.names import SHARED
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.leases import Leases
from sparklog.maintenance.merging.tail import merge_tails, merge_tails_in_turn
from sparklog.maintenance.runner import alone
from sparklog.maintenance.vacuuming.vacuum_overdue import VACUUM_JOB, overdue_steps
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.metadata.upkeep.housekeeping import keep_house_while
from sparklog.model import TopicDescription
from sparklog.service.housekeeper import Service, work_for
from sparklog.service.logs import Seldom
from sparklog.storage import open_files
from sparklog.wire.instances import Instance, Instances, leader_of

TOPICS_S: Final = 2.0
"""The pause between two rounds over topics: each looks at every partition."""
GROUPS_S: Final = 1.0
"""The pause between two rounds over groups: 100 slices may come in a second."""
VACUUM_S: Final = 300.0
"""The pause between two rounds of vacuum. A housekeeper lives for longer than that."""
RESTS: Final = 4
"""After a step of vacuum it rests so many times as long as the step took: merges go first."""
COMPACT_EVERY: Final = 10
"""Every tenth round over groups also looks for partitions to compact: 16 MiB do not come in a
second."""
MERGE_ALL_EVERY: Final = 10
"""The partitions of __consumer_offsets are merged once in this many rounds: every entry with
commits of offsets adds a slice to most of them (decision 51)."""
GROUPS_TOGETHER: Final = 10
"""So many of them are merged by one image; then the tails of the others are looked at anew."""
EXAMPLES: Final = 3
"""A line about tails that were not merged names problems of so many topics."""
DIRTY_BYTES: Final = 16 * 1024 * 1024
"""A partition with so many dirty bytes is compacted: its next coordinator has to read them."""
log: Final = logging.getLogger("sparklog.gateway")


class Tidying:
    """Merges and compacts for one gateway."""

    def __init__(
        self, catalog: Catalog, node_id: int, ended_round: Callable[[], None] = lambda: None
    ) -> None:
        """`node_id` is the id of the gateway.

        `ended_round` is called after each round over topics.
        """
        self._catalog = catalog
        self._ended_round = ended_round
        self._instances = Instances(Instance(node_id, "", 0))
        self._group_rounds = 0
        self._seldom = Seldom(catalog.clock)
        self._first = catalog.log.image().fold.cover
        """Topics that were touched after this version are opened."""
        self.ending = Event()
        """Set when the process ends. A round then stops after its present commit."""
        works = (
            (self.tidy_topics, TOPICS_S),
            (self.tidy_groups, GROUPS_S),
            (self.vacuum, VACUUM_S),
        )
        self._threads = [
            Thread(target=self._repeat, args=work, name="tidy", daemon=True) for work in works
        ]

    def start(self) -> None:
        """Begin the rounds; each kind has a thread of its own."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop, after the commits that have begun."""
        self.ending.set()
        for thread in self._threads:
            if thread.ident is not None:  # None if the process has no thread left for it
                thread.join()

    def _repeat(self, work: Callable[[], object], pause_s: float) -> None:
        while not self.ending.wait(pause_s):
            work()

    def tidy_topics(self) -> int:
        """Merge the tails of topics that are due; return how many segments were merged away.

        Errors are only logged, here and below.
        """
        return self._done(self._merge)

    def tidy_groups(self) -> int:
        """Merge and compact the partitions of __consumer_offsets that are due.

        Returns how many segments were merged away.
        """
        self._group_rounds += 1
        count = self._done(self._merge_groups)
        if self._group_rounds % COMPACT_EVERY == 0:
            self.compact_groups()
        return count

    def compact_groups(self) -> int:
        """Compact partitions of __consumer_offsets that the gateway coordinates; count them."""
        return self._done(self._compact)

    def vacuum(self) -> int:
        """Unlink files and drop rows that are overdue; return how many rows of segments went."""
        return self._done(self._vacuum)

    def _done(self, work: Callable[[Image], int]) -> int:
        try:
            with seldom_collected():
                return work(self._image())
        except SparklogError as error:
            message = "a merge, compaction or vacuum failed: %s"
            self._seldom.warn(work.__name__, log, message, error)
        except Exception:  # a bug must not end the tidying
            log.exception("a merge, compaction or vacuum failed")
        return 0

    def _image(self) -> Image:
        """Return the newest image, with the topics opened that were touched and are merged here."""
        image = self._catalog.log.image()
        self._instances.saw(image.brokers)
        touched = [
            topic
            for topic in image.names.values()
            if (known := image.topic(topic.topic_id)) is not None
            and not known.is_open
            and known.version > self._first
        ]
        # Each instance compacts its own partitions of __consumer_offsets.
        found = [one for one in touched if one.name == OFFSETS_TOPIC or self._leads(one.topic_id)]
        return self._catalog.image(*found) if found else image

    def _compact(self, image: Image) -> int:
        topic = image.names.get(OFFSETS_TOPIC)
        opened = None if topic is None else image.topic(topic.topic_id)
        count = 0
        if topic is None or opened is None or not opened.is_open:
            return count
        for number, one in sorted(opened.partitions.items()):
            if self.ending.is_set():
                break
            if self._leads(f"{OFFSETS_TOPIC}-{number}") and _dirty_bytes(one) >= DIRTY_BYTES:
                count += self._compact_partition(topic, number)
        return count

    def _compact_partition(self, topic: TopicDescription, number: int) -> bool:
        # Imported here: its kernels take more memory than all else, and few gateways need them.
        from sparklog.maintenance.compaction.compact import compact_partition

        outcome = compact_partition(JobContext(self._catalog, LocalFleet()), topic, number)
        for problem in () if outcome is None else outcome.problems:
            log.warning("%s-%d was not compacted: %s", OFFSETS_TOPIC, number, problem)
        return outcome is not None

    def _vacuum(self, image: Image) -> int:
        """Vacuum the topics that the gateway leads, and shared segments if it leads `__shared`."""
        context, count = JobContext(self._catalog, LocalFleet()), 0
        leases, begun_ms = Leases(context), context.clock.boot_ms()
        led = (one for one in image.names.values() if self._leads(one.topic_id))
        for step in overdue_steps(context, image, led, shared=self._leads(SHARED)):
            outcome = alone(VACUUM_JOB, step, leases)
            count += outcome.counts.get("segments", 0)
            for problem in outcome.problems:
                log.warning("%s was not vacuumed: %s", step.topic, problem)
            took_ms = context.clock.boot_ms() - begun_ms
            if self.ending.wait(RESTS * took_ms / 1000):
                break
            begun_ms = context.clock.boot_ms()
        return count

    def _merge(self, image: Image) -> int:
        """Merge the tails of all topics that the gateway leads, without __consumer_offsets."""
        led = [one for one in image.names.values() if self._merges(one)]
        context = JobContext(self._catalog, LocalFleet())
        count = self._merged("topics", merge_tails(context, image, led))
        self._ended_round()
        return count

    def _merge_groups(self, image: Image) -> int:
        """Merge the tails of __consumer_offsets if the gateway leads it."""
        topic = image.names.get(OFFSETS_TOPIC)
        if topic is None or not self._leads(topic.topic_id):
            return 0
        return self._merged("groups", self._group_merges(topic))

    def _group_merges(self, topic: TopicDescription) -> Iterator[Outcome]:
        context = JobContext(self._catalog, LocalFleet())
        is_turn = self._group_rounds % MERGE_ALL_EVERY == 0
        for first in range(0, topic.num_partitions, GROUPS_TOGETHER):
            if self.ending.is_set():
                break
            image, some = self._catalog.image(), range(first, first + GROUPS_TOGETHER)
            yield from merge_tails_in_turn(context, image, topic, some, is_turn=is_turn)

    def _merges(self, topic: TopicDescription) -> bool:
        return topic.name != OFFSETS_TOPIC and self._leads(topic.topic_id)

    def _leads(self, name: str) -> bool:
        instances = self._instances
        return leader_of(name, instances.alive).node_id == instances.own.node_id

    def _merged(self, trouble: str, outcomes: Iterable[Outcome]) -> int:
        """Count merged segments, and log problems; stop between two merges if the process ends.

        On a full disk each partition has a problem in each round: those of a round have one line.
        """
        count, problems = 0, list[str]()
        try:
            for outcome in outcomes:
                count += outcome.counts["segments"]
                problems += outcome.problems
                if self.ending.is_set():
                    break
        finally:
            if problems:
                message, told = "tails that were not merged: %d, such as %s", _examples(problems)
                self._seldom.warn(trouble, log, message, len(problems), told)
        return count


def _examples(problems: Sequence[str]) -> str:
    """Return a problem of each of a few topics; a problem begins with `topic-partition: `."""
    of_topics = {one.partition(":")[0].rpartition("-")[0]: one for one in problems}
    return "; ".join(list(of_topics.values())[:EXAMPLES])


def _dirty_bytes(log: PartitionLog) -> int:
    """Return the size of the segments that end above the cleaner offset."""
    first = log.segments.first_ending_after(log.cleaner_offset)
    return 0 if first is None else int(log.segments.log_bytes[first:].sum())


def _no_fold(_: MetadataLog) -> None:
    """Leave the fold to the main thread."""


def keep(log_dir: str, node_id: int, service: Service) -> None:
    """Keep house for a gateway, as long as it wants it. Raises as `keep_house_while`."""
    catalog = Catalog(open_files(log_dir), after_commit=_no_fold)
    tidying = Tidying(catalog, node_id, service.ended_round)
    try:
        tidying.start()
        keep_house_while(service.waits, catalog.log)
    finally:
        tidying.close()


if __name__ == "__main__":
    path, number, level = sys.argv[1:]
    work_for("gateway", level, lambda service: keep(path, int(number), service))
