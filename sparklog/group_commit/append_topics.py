"""The batches that one group appends to a topic: numbered, laid out, and as rows of the metadata.

numbered      from the log end offset that is seen; if others commit meanwhile, the row's shift
              says so. Base offset and leader epoch lie outside the checksum
laid out      partition after partition, for a shared segment; a partition with more bytes than
              it takes gets segments of its own
"""

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from sparklog.errors import SparklogError, UnknownTopicError
from sparklog.group_commit.append_slots import Appended, Checked
from sparklog.log_writer import PRODUCE, WritePlan
from sparklog.metadata.check import check
from sparklog.metadata.edit import Edit, TopicEdit
from sparklog.metadata.image import Image, TopicImage, at_log_end
from sparklog.model import NO_TIMESTAMP, SegmentEntry, TimestampType
from sparklog.record import layout
from sparklog.record.batches import Buffer
from sparklog.record.checksum import crc32c

if TYPE_CHECKING:
    from sparklog.log_writer import TopicWriter
    from sparklog.record.encode import EncodedStream

_HEAD: Final = struct.Struct(">qii")
"""Base offset, length, leader epoch: the first bytes of a batch."""


class PartitionAppends:
    """The batches of one partition, one after another."""

    def __init__(self, partition: int, batches: Sequence[Checked], plan: WritePlan) -> None:
        self.partition = partition
        self.batches = batches
        self.base_offset = plan.end_offsets.get(partition, 0)
        """The offset in the file of the first record."""
        self.size = sum(len(batch.data) for _, batch in batches)
        self.is_small = self.size <= plan.shared_bytes_max
        self.entries: Sequence[SegmentEntry] = ()
        """The rows, with the file's offsets."""
        self.starts: list[int] = []
        """The offset in the log of each batch, as the newest plan gives them."""
        self._leader_epoch = plan.leader_epoch

    def pieces(self) -> list[bytes | memoryview]:
        """Return the bytes of the batches, with their offsets in the file."""
        found: list[bytes | memoryview] = []
        offset = self.base_offset
        for _, batch in self.batches:
            length = len(batch.data) - layout.LOG_OVERHEAD
            found.append(_HEAD.pack(offset, length, self._leader_epoch))
            found.append(batch.data[_HEAD.size :].data)
            offset += batch.record_count
        return found

    def stream(self) -> "EncodedStream":
        """Return the batches as a TopicWriter takes them."""
        from sparklog.record.encode import EncodedStream
        from sparklog.record.scan import scan_batches

        data = np.frombuffer(b"".join(self.pieces()), np.uint8)
        least = np.array([batch.min_timestamp for _, batch in self.batches], np.int64)
        count = sum(batch.record_count for _, batch in self.batches)
        return EncodedStream(self.partition, data, scan_batches(data).batches, count, least)

    def lie_at(self, path: str, position: int, data: Buffer, now_ms: int) -> None:
        """Take note that all batches lie in a shared segment, as `data`."""
        batches = [batch for _, batch in self.batches]
        ends = list(accumulate(batch.record_count for batch in batches))
        times = [batch.max_timestamp for batch in batches]
        newest = max(times)
        codecs = {batch.codec for batch in batches}
        producers = {batch.producer_id for batch in batches if batch.producer_id >= 0}
        entry = SegmentEntry(
            partition=self.partition,
            base_offset=self.base_offset,
            next_offset=self.base_offset + ends[-1],
            file_base_offset=self.base_offset,
            log_path=path,
            log_bytes=self.size,
            log_position=position,
            log_crc32c=crc32c(data),
            record_count=ends[-1],
            batch_count=len(batches),
            min_timestamp=min(batch.min_timestamp for batch in batches),
            max_timestamp=newest,
            max_timestamp_delta=ends[times.index(newest)] - 1,
            codec=codecs.pop() if len(codecs) == 1 else None,
            max_leader_epoch=self._leader_epoch,
            producer_ids=tuple(sorted(producers)),
            transactional=any(batch.is_transactional for batch in batches),
            created_ms=now_ms,
        )
        self.entries = [entry]

    def place(self, topic: TopicImage) -> None:
        """Give every batch its offset in the log, from the log end offset of an image on."""
        end = topic.partition(self.partition).log_end_offset
        self.starts = []
        for _, batch in self.batches:
            self.starts.append(end)
            end += batch.record_count

    def settle(self, topic: TopicImage, log_append_time_ms: int) -> None:
        """Tell the batches their offsets: the commit has landed."""
        log_start = topic.partition(self.partition).log_start_offset
        for (slot, _), start in zip(self.batches, self.starts, strict=True):
            slot.outcome = Appended(start, log_append_time_ms, log_start)


class TopicAppends:
    """The batches of one topic, and the outcome of the newest try to commit them."""

    def __init__(self, plan: WritePlan, checked: Sequence[Checked]) -> None:
        self.plan = plan
        self.error: SparklogError | None = None
        of_partition: dict[int, list[Checked]] = {}
        for one in checked:
            of_partition.setdefault(one.slot.append.partition, []).append(one)
        self.partitions = [
            PartitionAppends(number, of_partition[number], plan) for number in sorted(of_partition)
        ]

    @property
    def topic_id(self) -> str:
        """The topic's id."""
        return self.plan.topic.topic_id

    @property
    def small(self) -> list[PartitionAppends]:
        """The partitions that go into a shared segment."""
        return [one for one in self.partitions if one.is_small]

    def write_large(self, writer: "TopicWriter") -> None:
        """Write the partitions that get segments of their own, if there are any."""
        large = {one.partition: one for one in self.partitions if not one.is_small}
        try:
            writer.append(one.stream() for one in large.values())
            entries = writer.close()
        except BaseException:
            writer.abort()
            raise
        for number, one in large.items():
            one.entries = [entry for entry in entries if entry.partition == number]

    def placed(self, image: Image) -> TopicEdit | None:
        """Return the edit that makes the batches visible; None when it is refused (`error`)."""
        self.error = None
        try:
            topic = live_topic(image, self.topic_id)
            for one in self.partitions:
                one.place(topic)
            pending = [entry for one in self.partitions for entry in one.entries]
            epochs = {one.partition: self.plan.leader_epoch for one in self.partitions}
            edit = TopicEdit(segments=at_log_end(topic, pending), leader_epochs=epochs)
            check(image, Edit(operation=PRODUCE, topics={self.topic_id: edit}))
        except SparklogError as error:
            self.error = error
            return None
        return edit

    def settle(self, image: Image) -> None:
        """Tell every batch its offset: the commit has landed, as `image`."""
        topic = live_topic(image, self.topic_id)
        is_append_time = self.plan.config.timestamp_type is TimestampType.LOG_APPEND_TIME
        for one in self.partitions:
            one.settle(topic, self.plan.now_ms if is_append_time else NO_TIMESTAMP)

    def fail(self, error: SparklogError) -> None:
        """Tell every batch that the topic refuses them."""
        for one in self.partitions:
            for slot, _ in one.batches:
                slot.outcome = error


def live_topic(image: Image, topic_id: str) -> TopicImage:
    """Return a topic of an image. Raises UnknownTopicError when it is deleted, or was never."""
    topic = image.topic(topic_id)
    if topic is None or topic.closed_ms is not None:
        raise UnknownTopicError(f"unknown topic id {topic_id!r}", topic_id=topic_id)
    return topic
