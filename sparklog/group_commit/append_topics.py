"""The batches that one group appends to a topic: their offsets, their places, and their rows.

    offsets     go on from the log end offset before the write. If others commit meanwhile, the
                offsets in the file stay, and the row gets a shift. (Base offset and leader epoch
                are outside a batch's checksum.)
    verdicts    a producer's batch is appended, is a duplicate, or is refused. This is decided
                before the write, so that a refused batch is not written, and again in the commit
    places      a shared segment has partition after partition. A partition with more bytes than
                sparklog.shared.segment.max.bytes gets segments of its own

If the commit refuses a batch in a shared segment, the partition gets two rows: one for the part of
its slice before the batch, and one for the part behind it. Segments of a partition's own cannot be
split, so such a partition is written again.
"""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from sparklog.config import TopicConfig
from sparklog.errors import CommitConflictError, SparklogError
from sparklog.group_commit.admission import Admission
from sparklog.group_commit.append_partition import PartitionAppends
from sparklog.group_commit.append_slots import Checked
from sparklog.group_commit.edit import topic_edit
from sparklog.log_writer import WriteOptions, WritePlan, config_of, plan_write_on, shared_bytes_max
from sparklog.metadata.plans.topics import live_topic
from sparklog.metadata.state.edit import TopicEdit
from sparklog.metadata.state.image import Image, PartitionLog, TopicImage, at_log_end
from sparklog.model import NO_TIMESTAMP, SegmentEntry, TimestampType

if TYPE_CHECKING:
    from sparklog.log_writer import TopicWriter


class Target(NamedTuple):
    """A topic as the image before the write has it; configs, time and options of the write."""

    topic: TopicImage
    config: TopicConfig
    now_ms: int
    options: WriteOptions

    @classmethod
    def of(cls, topic: TopicImage, now_ms: int, options: WriteOptions) -> "Target":
        """Return the target of a topic."""
        return cls(topic, config_of(topic.description), now_ms, options)

    @property
    def plan(self) -> WritePlan:
        """The write plan, for segments of the partitions' own."""
        return plan_write_on(self.topic, self.now_ms, self.options)


class TopicAppends:
    """The batches of one topic, and the error of the newest try to commit them."""

    def __init__(self, target: Target, checked: Sequence[Checked], admission: Admission) -> None:
        """`admission` was made from the image of the target."""
        self.target = target
        topic = target.topic
        self.name = topic.description.name
        self.topic_id = topic.description.topic_id
        self.error: SparklogError | None = None
        of_partition: dict[int, list[Checked]] = {}
        for one in checked:
            of_partition.setdefault(one.slot.append.partition, []).append(one)
        self.partitions: list[PartitionAppends] = []
        self.small: list[PartitionAppends] = []
        """The partitions that go into a shared segment."""
        self.large: list[PartitionAppends] = []
        """The partitions that get segments of their own."""
        small_bytes_max = shared_bytes_max(target.config, target.options)
        for number, found in sorted(of_partition.items()):
            log = topic.partition(number)
            appends = PartitionAppends(
                log, found, _leader_epoch(found, log), self.topic_id, admission
            )
            self.partitions.append(appends)
            if appends.size:
                (self.small if appends.size <= small_bytes_max else self.large).append(appends)

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
            edit = topic_edit(image, self.topic_id, self._fields(topic, admission))
        except SparklogError as error:
            self.error = copy(error)  # without its frames, as in `Slot.refuse`
            admission.changed = admitted
            return None
        return edit if edit.segments else None

    def _fields(self, topic: TopicImage, admission: Admission) -> dict[str, Any]:
        """Place all batches, and return the fields of the edit that appends their rows."""
        fields: dict[str, Any] = {"leader_epochs": {}, "producers": {}, "transactions": {}}
        rows: list[SegmentEntry] = []
        for one in self.partitions:
            number, log = one.partition, topic.partition(one.partition)
            one.place(log, admission)
            if not one.rows:
                continue
            rows += one.rows
            fields["leader_epochs"][number] = one.leader_epoch
            if one.decided.producers:
                fields["producers"][number] = one.decided.producers
            if one.decided.transactions is not None:
                fields["transactions"][number] = one.decided.transactions
        fields["segments"] = at_log_end(topic, rows)
        return fields

    def settle(self) -> None:
        """Give the batches their outcomes: the commit has landed."""
        config, now_ms = self.target.config, self.target.now_ms
        is_append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        for one in self.partitions:
            one.settle(now_ms if is_append_time else NO_TIMESTAMP)

    def fail(self) -> None:
        """Make the error of the newest try the outcome of all batches that have none."""
        found = self.error or CommitConflictError(
            f"topic {self.name!r}: retries of these batches kept landing elsewhere"
        )
        for one in self.partitions:
            one.fail(found)


def _leader_epoch(batches: Sequence[Checked], log: PartitionLog) -> int:
    """Return the leader epoch that the batches of a partition name, else the partition's.

    A batch with another epoch than the partition's was refused before.
    """
    for slot, _ in batches:
        if slot.append.leader_epoch is not None:
            return slot.append.leader_epoch
    return log.leader_epoch
