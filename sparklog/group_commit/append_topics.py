"""The batches that one group appends to a topic: their offsets, their places, and their rows.

    numbered      from the log end offset before the write on. If others commit meanwhile, the
                  offsets in the file stay, and the row gets a shift. Base offset and leader epoch
                  lie outside a batch's checksum
    decided       a producer's batch is appended, is a duplicate, or is refused. This is decided
                  before the write, so that a refused batch is not written, and again in the commit
    laid out      partition after partition, in a shared segment. A partition with more bytes than
                  sparklog.shared.segment.max.bytes gets segments of its own

If the commit refuses a batch that was written, two rows name the parts of the slice before it and
behind it. Segments of a partition's own cannot be split, so the partition is written again.
"""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

from sparklog.errors import CommitConflictError, SparklogError, UnknownTopicError
from sparklog.group_commit.admission import Admission
from sparklog.group_commit.append_partition import PartitionAppends
from sparklog.group_commit.append_slots import Checked
from sparklog.log_writer import WritePlan
from sparklog.metadata.check import check_topic
from sparklog.metadata.edit import TopicEdit
from sparklog.metadata.image import Image, PartitionLog, TopicImage, at_log_end
from sparklog.model import NO_TIMESTAMP, TimestampType

if TYPE_CHECKING:
    from sparklog.log_writer import TopicWriter


class TopicAppends:
    """The batches of one topic, and the error of the newest try to commit them."""

    def __init__(
        self,
        topic: TopicImage,
        plan: WritePlan,
        checked: Sequence[Checked],
        admission: Admission,
    ) -> None:
        """`plan` and `admission` were made from the image of `topic`."""
        self.plan = plan
        self.topic_id = plan.topic.topic_id
        self.error: SparklogError | None = None
        self._shared_bytes_max = plan.shared_bytes_max
        of_partition: dict[int, list[Checked]] = {}
        for one in checked:
            of_partition.setdefault(one.slot.append.partition, []).append(one)
        self.partitions: list[PartitionAppends] = []
        for number, found in sorted(of_partition.items()):
            log = topic.partition(number)
            epoch = _leader_epoch(found, log)
            self.partitions.append(PartitionAppends(log, found, epoch, self.topic_id, admission))

    @property
    def small(self) -> list[PartitionAppends]:
        """The partitions that go into a shared segment."""
        return [one for one in self.partitions if 0 < one.size <= self._shared_bytes_max]

    @property
    def large(self) -> list[PartitionAppends]:
        """The partitions that get segments of their own."""
        return [one for one in self.partitions if one.size > self._shared_bytes_max]

    def write_large(self, writer: "TopicWriter") -> None:
        """Write the partitions that get segments of their own."""
        try:
            writer.append(one.stream() for one in self.large)
            entries = writer.close()
        except BaseException:
            writer.abort()
            raise
        for one in self.large:
            one.lie_in([entry for entry in entries if entry.partition == one.partition])

    def placed(self, image: Image, admission: Admission) -> TopicEdit | None:
        """Return the edit that makes the batches visible; `admission` is that of the plan.

        None if there is nothing to commit: no batch is left, or there is an `error`.
        """
        self.error = None
        admitted = dict(admission.changed)
        try:
            topic = live_topic(image, self.topic_id)
            for one in self.partitions:
                one.place(topic.partition(one.partition), admission)
            placed = [one for one in self.partitions if one.rows]
            found = [(one.partition, one.decided) for one in placed]
            edit = TopicEdit(
                segments=at_log_end(topic, [row for one in placed for row in one.rows]),
                leader_epochs={one.partition: one.leader_epoch for one in placed},
                producers={number: one.producers for number, one in found if one.producers},
                transactions={
                    number: one.transactions
                    for number, one in found
                    if one.transactions is not None
                },
            )
            check_topic(image, self.topic_id, edit)
        except SparklogError as error:
            self.error = copy(error)  # without its frames, as in `Slot.refuse`
            admission.changed = admitted
            return None
        return edit if placed else None

    def settle(self) -> None:
        """Give the batches their outcomes: the commit has landed."""
        is_append_time = self.plan.config.timestamp_type is TimestampType.LOG_APPEND_TIME
        for one in self.partitions:
            one.settle(self.plan.now_ms if is_append_time else NO_TIMESTAMP)

    def fail(self) -> None:
        """Give the error of the newest try to the batches that have no outcome."""
        found = self.error or CommitConflictError(
            f"topic {self.plan.topic.name!r}: retries of these batches kept landing elsewhere"
        )
        for one in self.partitions:
            one.fail(found)


def _leader_epoch(batches: Sequence[Checked], log: PartitionLog) -> int:
    """Return the leader epoch that the batches of a partition name, else the partition's.

    A batch with another epoch than the partition's was refused before.
    """
    asked = [slot.append.leader_epoch for slot, _ in batches]
    return next((epoch for epoch in asked if epoch is not None), log.leader_epoch)


def live_topic(image: Image, topic_id: str) -> TopicImage:
    """Return a topic of an image. Raises UnknownTopicError if it is deleted or unknown."""
    topic = image.topic(topic_id)
    if topic is None or topic.closed_ms is not None:
        raise UnknownTopicError(f"unknown topic id {topic_id!r}", topic_id=topic_id)
    return topic
