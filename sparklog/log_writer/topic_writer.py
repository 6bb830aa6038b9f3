"""Rows of one topic to segments; each partition has one open segment at a time.

Small partitions are held in memory, and go into a shared segment at the end. If they are too much
for that, the largest go before: in an object store as slices of the shared segment, on a local disk
into files of their own. A partition that becomes larger gets a file of its own anywhere. A task may
write a little to each of thousands of partitions; so for a partition with a single small batch only
the batch and its row are kept.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from sparklog.clock import Clock
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_writer.checks import check_rows
from sparklog.log_writer.own_offsets import OwnOffsets
from sparklog.log_writer.plan import WritePlan
from sparklog.log_writer.segment_file import SegmentFile
from sparklog.log_writer.shared_segment import SharedSegment
from sparklog.log_writer.slice_entry import slice_entry
from sparklog.model import SegmentEntry
from sparklog.produce.partitioner import merge_explicit, resolve_partitioner
from sparklog.record.batches import BatchTable, Buffer
from sparklog.record.encode import EncodedStream, RecordColumns, encode
from sparklog.record.scan import scan_batches
from sparklog.storage.files import Files

UPLOAD_PART_BYTES: Final = 10 * 1024 * 1024
"""A file of an object store is sent in parts of this size. The last whole part, which may still be
on its way, and the bytes behind it are in memory."""
HELD_BYTES_MAX: Final = 128 * 1024 * 1024
"""How many bytes of open segments may wait to be sent; with more, the largest are closed."""
SMALL_BYTES_MAX: Final = 64 * 1024 * 1024
"""How many bytes of small partitions are held; with more, the largest get files, or in an object
store further slices."""


class _Single(NamedTuple):
    """The only batch of a partition so far: its bytes, and its row without path and position."""

    data: bytes
    entry: SegmentEntry
    min_timestamp: int


class _Segment:
    """A segment that grows: held in memory while it is small, then in a file of its own."""

    def __init__(self, builder: SegmentBuilder, held_bytes_max: int) -> None:
        self.builder = builder
        self.held: list[Buffer] = []
        self.held_bytes = 0
        self.file: SegmentFile | None = None
        self._held_bytes_max = held_bytes_max

    def holds(self, data: Buffer) -> bool:
        """Whether the segment is in memory, and may stay there with more bytes."""
        return self.file is None and self.held_bytes + len(data) <= self._held_bytes_max

    def append(self, batches: BatchTable, data: Buffer, min_timestamp: int) -> None:
        """Append whole batches."""
        if self.file is not None:
            self.file.append(batches, data, min_timestamp=min_timestamp)
            return
        self.builder.append(batches, min_timestamp=min_timestamp, data=data)
        # A copy: the view would keep the bytes of all partitions that were encoded with it.
        self.held.append(bytes(data))
        self.held_bytes += len(data)

    def moved_to(self, file: SegmentFile) -> None:
        """Write the held batches to a file; further batches go there, too."""
        for data in self.held:
            file.write(data)
        self.file, self.held, self.held_bytes = file, [], 0


class TopicWriter:
    """Writes one writer's rows of one topic into segment files, one at a time per partition.

    `seed` makes sticky partitions and segment jitter differ between writers. Records keep their own
    offsets if the plan says so; else they are numbered from the log end offset in the plan.
    """

    def __init__(
        self,
        files: Files,
        plan: WritePlan,
        clock: Clock,
        seed: int,
        shared: SharedSegment | None = None,
    ) -> None:
        """Small partitions go into `shared`, if given; its owner closes it after the writers."""
        self._files = files
        self._plan = plan
        self._clock = clock
        self._random = np.random.default_rng(seed)
        self._settings = plan.batch_settings
        self._policy = plan.roll_policy
        self._shared_bytes_max = plan.shared_bytes_max
        self._partitioner = resolve_partitioner(plan.partitioner, plan.options.batch_size, seed)
        self._next_offsets = np.zeros(plan.topic.num_partitions, np.int64)
        for partition, end_offset in plan.end_offsets.items():
            self._next_offsets[partition] = end_offset
        self._leader_epochs = np.zeros(plan.topic.num_partitions, np.int64)
        for partition, epoch in plan.leader_epochs.items():
            self._leader_epochs[partition] = epoch
        self._own_offsets = OwnOffsets(plan)
        self._given = shared
        self._shared = shared or SharedSegment(files, clock)
        self._open: dict[int, _Segment] = {}
        self._singles: dict[int, _Single] = {}
        self._written: list[SegmentEntry] = []
        self._paths: list[str] = []

    @property
    def plan(self) -> WritePlan:
        """The plan; if the first rows had no offsets, it is a plan that keeps none."""
        return self._own_offsets.plan

    def write(self, columns: RecordColumns, partition: pa.Array | None = None) -> None:
        """Append rows; `partition` (int32) has their partitions, null if the partitioner decides.

        Raises InvalidRecordError, InvalidTimestampError, RecordTooLargeError, UnknownTopicError (a
        partition out of range), UnexpectedAppendOffsetError; then abort the writer.
        """
        check_rows(columns, self._plan)
        partitions = merge_explicit(
            partition,
            lambda: self._partitioner.assign(columns, self._plan.topic.num_partitions),
            self._plan.topic.num_partitions,
        )
        columns = self._own_offsets.take(columns, partition)
        streams = encode(
            columns,
            partitions,
            len(self._next_offsets),
            self._next_offsets,
            self._settings,
            self._leader_epochs,
        )
        self.append(stream for stream in streams if not self._is_single(stream))

    def append(self, streams: Iterable[EncodedStream]) -> None:
        """Append batches that are encoded already; the number of a stream is its partition.

        The offsets of a partition go on from the plan's end offset and the calls before.
        """
        for stream in streams:
            self._append(stream)
        bound_memory([self])

    def _is_single(self, stream: EncodedStream) -> bool:
        """Keep a stream of one small batch that is the first of its partition; return True.

        For any other stream return False, and do nothing.
        """
        number, size = stream.stream, len(stream.data)
        is_first = number not in self._open and number not in self._singles
        if not is_first or len(stream.batches) > 1 or size > self._shared_bytes_max:
            return False
        entry = slice_entry(stream, number, ("", 0), self._settings, self._clock.now_ms())
        # A copy: the view would keep the bytes of all partitions that were encoded with it.
        self._singles[number] = _Single(stream.data.tobytes(), entry, int(stream.min_timestamps[0]))
        self._next_offsets[number] = entry.next_offset
        return True

    def small_bytes(self) -> dict[int, int]:
        """Return how many bytes of each small partition are held in memory."""
        held = {number: one.held_bytes for number, one in self._open.items() if one.held_bytes}
        return held | {number: len(one.data) for number, one in self._singles.items()}

    def unsent_bytes(self) -> dict[int, int]:
        """Return how many bytes of each open file of an object store wait to be sent."""
        if self._files.is_local:
            return {}
        files = {number: one.file for number, one in self._open.items() if one.file is not None}
        return {
            number: file.bytes_written % UPLOAD_PART_BYTES
            + UPLOAD_PART_BYTES * (file.bytes_written >= UPLOAD_PART_BYTES)
            for number, file in files.items()
        }

    def let_go(self, partition: int) -> None:
        """Give a small partition a file of its own.

        In an object store, where each file costs requests and memory, end its slice instead.
        """
        if self._files.is_local:
            self._give_file(self._segment(partition, int(self._next_offsets[partition])))
        else:
            self.close_segment(partition)

    def _append(self, stream: EncodedStream) -> None:
        batches, times, start = stream.batches, stream.min_timestamps, 0
        while len(batches):
            segment = self._segment(stream.stream, int(batches.base_offset[0]))
            count = segment.builder.fits(batches, self._clock.now_ms())
            if count:
                end = int(batches.end_position[count - 1])
                data = stream.data[start:end]
                if not segment.holds(data):
                    self._give_file(segment)
                segment.append(batches.slice(0, count), data, int(times[:count].min()))
                batches, times, start = batches.slice(count), times[count:], end
            if len(batches):
                self._give_file(segment)  # it is full
                self.close_segment(stream.stream)
        self._next_offsets[stream.stream] = stream.batches.next_offset[-1]

    def _segment(self, partition: int, base: int) -> _Segment:
        """Return the partition's open segment; if there is none, a new one that begins at `base`.

        The partition's single batch, if there is one, becomes the beginning of the segment.
        """
        segment = self._open.get(partition)
        if segment is not None:
            return segment
        single = self._singles.pop(partition, None)
        builder = SegmentBuilder(
            base if single is None else single.entry.base_offset,
            partition,
            self._policy,
            created_ms=self._clock.now_ms() if single is None else single.entry.created_ms,
            jitter_ms=self._policy.draw_jitter(int(self._random.integers(0, 2**31))),
        )
        segment = self._open[partition] = _Segment(builder, self._shared_bytes_max)
        if single is not None:
            batches = scan_batches(single.data).batches
            segment.append(batches, single.data, single.min_timestamp)
        return segment

    def _give_file(self, segment: _Segment) -> None:
        if segment.file is None:
            segment.moved_to(
                SegmentFile(
                    self._files,
                    self._plan.topic,
                    segment.builder,
                    self._clock.now_ms(),
                    flush=self._plan.options.flush,
                )
            )

    def close_segment(self, partition: int) -> None:
        """Finish a segment: its `.log`, then its indexes if the topic's index.build is `write`."""
        flush = self._plan.options.flush
        single = self._singles.pop(partition, None)
        if single is not None:
            path, position = self._shared.put([single.data], flush=flush)
            now_ms = self._clock.now_ms()
            entry = single.entry._replace(log_path=path, log_position=position, created_ms=now_ms)
            self._written.append(entry)
            return
        segment = self._open.pop(partition)
        if segment.file is None:
            self._written.append(self._shared.add(segment.builder, segment.held, flush=flush))
            return
        is_indexed = self._plan.config.index_build == "write"
        self._written.append(segment.file.close(self._clock.now_ms(), is_indexed=is_indexed))
        self._paths += segment.file.paths

    def close(self) -> list[SegmentEntry]:
        """Finish every segment; return their rows, by partition and then in the order written.

        With the option `flush` all files are durable. The rows have the offsets of the files:
        `base_offset` equals `file_base_offset`.
        """
        for partition in sorted((*self._open, *self._singles)):
            self.close_segment(partition)
        if self._given is None:
            self._shared.close()
        if self._plan.options.flush:
            self._files.sync(self._paths)
        return sorted(self._written, key=lambda entry: (entry.partition, entry.base_offset))

    def abort(self) -> None:
        """Remove the files that are still being written; vacuum deletes the finished ones."""
        for segment in self._open.values():
            if segment.file is not None:
                segment.file.abort()
        if self._given is None:
            self._shared.abort()
        self._open.clear()
        self._singles.clear()


def bound_memory(writers: Iterable[TopicWriter]) -> None:
    """Let these writers, together, hold no more than the limits: relieve the largest partitions.

    A writer bounds itself. Call this if several writers go on side by side.
    """
    writers = list(writers)
    for held_by, bytes_max, relieve in (
        (TopicWriter.small_bytes, SMALL_BYTES_MAX, TopicWriter.let_go),
        (TopicWriter.unsent_bytes, HELD_BYTES_MAX, TopicWriter.close_segment),
    ):
        held = [(size, number, one) for one in writers for number, size in held_by(one).items()]
        left = sum(size for size, _, _ in held)
        for size, number, writer in sorted(held, key=itemgetter(0), reverse=True):
            if left <= bytes_max:
                break
            relieve(writer, number)
            left -= size
