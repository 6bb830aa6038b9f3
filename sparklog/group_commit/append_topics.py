"""The batches that one group appends to a topic: numbered, laid out, as rows of the metadata.

    numbered      from the log end offset that is seen; if others commit meanwhile, the row's shift
                  says so. Base offset and leader epoch lie outside the checksum
    decided       a producer's batch is appended, was appended before, or does not follow: first on
                  the image that is seen, for what need not be written, then in the commit
    laid out      partition after partition, for a shared segment; a partition with more bytes than
                  it takes gets segments of its own

A batch may turn out to be no part of the log after it was written: the slice is split around it
into two rows. Segments of a partition's own have no such rows, so it is written again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparklog.errors import CommitConflictError, SparklogError, UnknownTopicError
from sparklog.group_commit.admission import Admission
from sparklog.group_commit.append_partition import PartitionAppends
from sparklog.group_commit.append_slots import Checked
from sparklog.log_writer import PRODUCE, WritePlan
from sparklog.metadata.check import check
from sparklog.metadata.edit import Edit, TopicEdit
from sparklog.metadata.image import Image, TopicImage, at_log_end
from sparklog.model import NO_TIMESTAMP, TimestampType

if TYPE_CHECKING:
    from sparklog.log_writer import TopicWriter


class TopicAppends:
    """The batches of one topic, and the outcome of the newest try to commit them."""

    def __init__(
        self,
        topic: TopicImage,
        plan: WritePlan,
        checked: Sequence[Checked],
        admission: Admission,
    ) -> None:
        """`topic` is the one that `plan` was made of, `admission` that of the same image."""
        self.plan = plan
        self.error: SparklogError | None = None
        of_partition: dict[int, list[Checked]] = {}
        for one in checked:
            of_partition.setdefault(one.slot.append.partition, []).append(one)
        self.partitions = [
            PartitionAppends(
                topic.partition(number),
                found,
                _leader_epoch(found, plan),
                self.topic_id,
                admission,
            )
            for number, found in sorted(of_partition.items())
        ]

    @property
    def topic_id(self) -> str:
        """The topic's id."""
        return self.plan.topic.topic_id

    @property
    def small(self) -> list[PartitionAppends]:
        """The partitions that go into a shared segment."""
        most = self.plan.shared_bytes_max
        return [one for one in self.partitions if 0 < one.size <= most]

    @property
    def large(self) -> list[PartitionAppends]:
        """The partitions that get segments of their own."""
        most = self.plan.shared_bytes_max
        return [one for one in self.partitions if one.size > most]

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
        """Return the edit that makes the batches visible; `admission` is the plan's.

        None when there is nothing to commit, for one, because the topic refuses it (`error`).
        """
        self.error = None
        admitted = dict(admission.changed)
        try:
            topic = live_topic(image, self.topic_id)
            for one in self.partitions:
                one.place(topic.partition(one.partition), admission)
            placed = [one for one in self.partitions if one.rows]
            edit = TopicEdit(
                segments=at_log_end(topic, [row for one in placed for row in one.rows]),
                leader_epochs={one.partition: one.leader_epoch for one in placed},
                producers={one.partition: one.producers for one in placed if one.producers},
                transactions={
                    one.partition: one.transactions
                    for one in placed
                    if one.transactions is not None
                },
            )
            check(image, Edit(operation=PRODUCE, topics={self.topic_id: edit}))
        except SparklogError as error:
            self.error = error
            admission.changed = admitted
            return None
        return edit if placed else None

    def settle(self, image: Image) -> None:
        """Tell the batches their offsets: the commit has landed, as `image`."""
        topic = live_topic(image, self.topic_id)
        is_append_time = self.plan.config.timestamp_type is TimestampType.LOG_APPEND_TIME
        for one in self.partitions:
            log_start = topic.partition(one.partition).log_start_offset
            one.settle(log_start, self.plan.now_ms if is_append_time else NO_TIMESTAMP)

    def fail(self) -> None:
        """Give the batches that have no outcome the error of the newest try."""
        found = self.error or CommitConflictError(
            f"topic {self.plan.topic.name!r}: retries of these batches kept landing elsewhere"
        )
        for one in self.partitions:
            one.fail(found)


def _leader_epoch(batches: Sequence[Checked], plan: WritePlan) -> int:
    """Return the leader epoch that a partition's batches ask for; any of them is the newest one."""
    asked = [slot.append.leader_epoch for slot, _ in batches]
    return next((epoch for epoch in asked if epoch is not None), plan.leader_epoch)


def live_topic(image: Image, topic_id: str) -> TopicImage:
    """Return a topic of an image. Raises UnknownTopicError when it is deleted, or was never."""
    topic = image.topic(topic_id)
    if topic is None or topic.closed_ms is not None:
        raise UnknownTopicError(f"unknown topic id {topic_id!r}", topic_id=topic_id)
    return topic
