"""The housekeeper of a gateway: merges the ends of the logs that it leads, compacts, and folds.

    topics    a run every other second: their tails have a small bound
    groups    __consumer_offsets, a run a second: every tenth run merges all, those in between the
              longest tails; its partitions are compacted
    fold      of the metadata log, on the main thread (`keep_house_for`)

So a log dir has few segments even if only gateways write to it and no scheduler runs, and another
instance reads a partition of __consumer_offsets quickly. A gateway runs no other job.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Final

from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import SparklogError
from sparklog.fleet import LocalFleet
from sparklog.garbage import seldom_collected
from sparklog.housekeeper import Service, begin
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.tail import merge_tails, merge_tails_in_turn
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.housekeeping import keep_house_for
from sparklog.metadata.image import Image, PartitionLog
from sparklog.metadata.log import MetadataLog
from sparklog.model import TopicDescription
from sparklog.storage import open_files
from sparklog.wire.instances import Instance, Instances, leader_of

TOPICS_S: Final = 2.0
"""The pause between two runs for topics: each looks at every partition."""
GROUPS_S: Final = 1.0
"""The pause between two runs for groups: 100 slices may come in a second."""
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
    """Merges and compacts for one gateway."""

    def __init__(self, catalog: Catalog, node_id: int) -> None:
        """`node_id` is the id of the gateway."""
        self._catalog = catalog
        self._instances = Instances(Instance(node_id, "", 0))
        self._looks = 0
        self._counting = Lock()
        """Held while `merged` grows: both threads merge."""
        self.merged = 0
        """Segments that were merged away since the start."""
        self.compacted = 0
        """Partitions of __consumer_offsets that were compacted since the start."""
        self.ending = Event()
        """Set when the process ends. A run then stops after its present commit."""

    def start(self) -> None:
        """Begin the runs, each on a thread of its own."""
        works = (self.tidy_topics, TOPICS_S), (self.tidy_groups, GROUPS_S)
        self._threads = [Thread(target=self._repeat, args=work, name="tidy") for work in works]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop, after the commits that have begun."""
        self.ending.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, work: Callable[[], None], pause_s: float) -> None:
        while not self.ending.wait(pause_s):
            work()

    def tidy_topics(self) -> None:
        """Merge the tails of topics that are due. Errors are only logged, here and below."""
        self._work(self._merge)

    def tidy_groups(self) -> None:
        """Merge and compact the partitions of __consumer_offsets that are due."""
        self._looks += 1
        self._work(self._merge_groups)
        if self._looks % COMPACT_LOOKS == 0:
            self._work(self._compact)

    def _work(self, work: Callable[[Image], None]) -> None:
        try:
            with seldom_collected():
                work(self._image())
        except SparklogError as error:
            log.warning("a merge or compaction failed: %s", error)
        except Exception:  # a bug must not end the tidying
            log.exception("a merge or compaction failed")

    def _image(self) -> Image:
        """Return the newest image, with those topics opened that were touched since its fold."""
        metadata_log = self._catalog.log
        image = metadata_log.image()
        self._instances.saw(image.brokers)
        led = filter(self._leads, [topic.topic_id for topic in image.names.values()])
        found = [image.topic(topic_id) for topic_id in led]
        touched = [one for one in found if one is not None and one.waiting and not one.is_open]
        ids = [one.description.topic_id for one in touched]
        return metadata_log.image(ids) if ids else image

    def _compact(self, image: Image) -> None:
        """Compact partitions of __consumer_offsets that the gateway coordinates."""
        topic = image.names.get(OFFSETS_TOPIC)
        opened = None if topic is None else image.topic(topic.topic_id)
        if topic is None or opened is None or not opened.is_open:
            return
        for number, one in sorted(opened.partitions.items()):
            if self.ending.is_set():
                return
            if self._leads(f"{OFFSETS_TOPIC}-{number}") and _dirty_bytes(one) >= DIRTY_BYTES:
                self._compact_partition(topic, number)

    def _compact_partition(self, topic: TopicDescription, number: int) -> None:
        # Imported here: its kernels take more memory than all else, and few gateways need them.
        from sparklog.maintenance.compact import compact_partition

        outcome = compact_partition(JobContext(self._catalog, LocalFleet()), topic, number)
        self.compacted += outcome is not None
        for problem in () if outcome is None else outcome.problems:
            log.warning("%s-%d was not compacted: %s", OFFSETS_TOPIC, number, problem)

    def _merge(self, image: Image) -> None:
        """Merge the tails of all topics that the gateway leads, without __consumer_offsets."""
        led = [one for one in image.names.values() if self._merges(one)]
        context = JobContext(self._catalog, LocalFleet())
        self._told(merge_tails(context, image, led))

    def _merge_groups(self, image: Image) -> None:
        """Merge the tails of __consumer_offsets if the gateway leads it."""
        topic = image.names.get(OFFSETS_TOPIC)
        if topic is None or not self._leads(topic.topic_id):
            return
        context, is_turn = JobContext(self._catalog, LocalFleet()), self._looks % GROUPS_RUNS == 0
        for first in range(0, topic.num_partitions, GROUPS_TOGETHER):
            if self.ending.is_set():
                return
            image, some = self._image(), range(first, first + GROUPS_TOGETHER)
            self._told(merge_tails_in_turn(context, image, topic, some, is_turn=is_turn))

    def _merges(self, topic: TopicDescription) -> bool:
        return topic.name != OFFSETS_TOPIC and self._leads(topic.topic_id)

    def _leads(self, name: str) -> bool:
        instances = self._instances
        return leader_of(name, instances.alive).node_id == instances.own.node_id

    def _told(self, outcomes: Iterable[Outcome]) -> None:
        """Count merges, and log their problems; stop between two merges when the process ends."""
        for outcome in outcomes:
            with self._counting:
                self.merged += outcome.counts["segments"]
            for problem in outcome.problems:
                log.warning("a tail was not merged: %s", problem)
            if self.ending.is_set():
                return


def _dirty_bytes(log: PartitionLog) -> int:
    """Return the size of the segments that end above the cleaner offset."""
    first = log.segments.first_ending_after(log.cleaner_offset)
    return 0 if first is None else int(log.segments.log_bytes[first:].sum())


def _no_fold(_: MetadataLog) -> None:
    """Leave the fold to the main thread."""


def keep(log_dir: str, node_id: int, service: Service) -> None:
    """Keep house for a gateway, as long as it wants it. Raises as `keep_house_for`."""
    catalog = Catalog(open_files(log_dir), after_commit=_no_fold)
    tidying = Tidying(catalog, node_id)
    tidying.start()
    try:
        keep_house_for(service, catalog.log)
    finally:
        tidying.close()


if __name__ == "__main__":
    log_dir, node_id, level = sys.argv[1:]
    keep(log_dir, int(node_id), begin(level))
