"""Rows of one topic to segment files, one at a time per partition."""

from typing import Final

import numpy as np
import pyarrow as pa

from sparklog.clock import Clock
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_writer.checks import check_rows
from sparklog.log_writer.own_offsets import OwnOffsets
from sparklog.log_writer.plan import WritePlan
from sparklog.log_writer.segment_file import SegmentFile
from sparklog.model import SegmentEntry
from sparklog.produce.partitioner import merge_explicit, resolve_partitioner
from sparklog.record.encode import EncodedStream, RecordColumns, encode
from sparklog.storage.files import Files

UPLOAD_PART_BYTES: Final = 10 * 1024 * 1024
"""An object store's file is sent in parts of this size; in memory are the last whole part, which
may still be on its way, and what is no whole part yet."""
HELD_BYTES_MAX: Final = 128 * 1024 * 1024
"""Most bytes of all open segments of a writer that wait so; beyond it the largest are closed."""


class TopicWriter:
    """Writes one writer's rows of one topic into segment files, one at a time per partition.

    `seed` draws what may differ between writers: sticky partitions and segment jitter.
    Records that bring their own offsets keep them if the plan says so; others are numbered from 0.
    """

    def __init__(self, files: Files, plan: WritePlan, clock: Clock, seed: int) -> None:
        self._files = files
        self._plan = plan
        self._clock = clock
        self._random = np.random.default_rng(seed)
        self._settings = plan.batch_settings
        self._policy = plan.roll_policy
        self._partitioner = resolve_partitioner(plan.partitioner, plan.options.batch_size, seed)
        self._next_offsets = np.zeros(plan.topic.num_partitions, np.int64)
        self._own_offsets = OwnOffsets(plan)
        self._open: dict[int, SegmentFile] = {}
        self._written: list[SegmentEntry] = []
        self._paths: list[str] = []

    @property
    def plan(self) -> WritePlan:
        """The plan, which keeps offsets only if the rows have turned out to bring some."""
        return self._own_offsets.plan

    def write(self, columns: RecordColumns, partition: pa.Array | None = None) -> None:
        """Append rows; `partition` (int32, nullable) decides where it is not null.

        Raises InvalidRecordError, InvalidTimestampError, RecordTooLargeError, UnknownTopicError (a
        partition out of range), UnexpectedAppendOffsetError: the writer is then to be aborted.
        """
        check_rows(columns, self._plan)
        partitions = merge_explicit(
            partition,
            lambda: self._partitioner.assign(columns, self._plan.topic.num_partitions),
            self._plan.topic.num_partitions,
        )
        columns = self._own_offsets.take(columns, partition)
        streams = encode(
            columns, partitions, len(self._next_offsets), self._next_offsets, self._settings
        )
        for stream in streams:
            self._append(stream)
        if not self._files.is_local:
            self._bound_memory()

    def _bound_memory(self) -> None:
        """Close segments of an object store while too much of them waits in memory to be sent."""
        held = {
            partition: segment.bytes_written % UPLOAD_PART_BYTES
            + UPLOAD_PART_BYTES * (segment.bytes_written >= UPLOAD_PART_BYTES)
            for partition, segment in self._open.items()
        }
        while sum(held.values()) > HELD_BYTES_MAX:
            largest = max(held, key=lambda partition: held[partition])
            self._close(largest)
            del held[largest]

    def _append(self, stream: EncodedStream) -> None:
        batches, times, start = stream.batches, stream.min_timestamps, 0
        while len(batches):
            segment = self._segment(stream.stream, int(batches.base_offset[0]))
            count = segment.builder.fits(batches, self._clock.now_ms())
            if count:
                end = int(batches.end_position[count - 1])
                segment.append(
                    batches.slice(0, count),
                    stream.data[start:end],
                    min_timestamp=int(times[:count].min()),
                )
                batches, times, start = batches.slice(count), times[count:], end
            if len(batches):
                self._close(stream.stream)
        self._next_offsets[stream.stream] = stream.batches.next_offset[-1]

    def _segment(self, partition: int, base: int) -> SegmentFile:
        segment = self._open.get(partition)
        if segment is None:
            segment = self._open[partition] = self._created(partition, base)
        return segment

    def _created(self, partition: int, base: int) -> SegmentFile:
        now_ms = self._clock.now_ms()
        builder = SegmentBuilder(
            base,
            partition,
            self._policy,
            created_ms=now_ms,
            jitter_ms=self._policy.draw_jitter(int(self._random.integers(0, 2**31))),
        )
        flush = self._plan.options.flush
        return SegmentFile(self._files, self._plan.topic, builder, now_ms, flush=flush)

    def _close(self, partition: int) -> None:
        """Finish a segment: its `.log`, then its indexes where the topic builds them on write."""
        segment = self._open.pop(partition)
        is_indexed = self._plan.config.index_build == "write"
        self._written.append(segment.close(self._clock.now_ms(), is_indexed=is_indexed))
        self._paths += segment.paths

    def close(self) -> list[SegmentEntry]:
        """Finish every segment, make all files durable if asked, and return what was written.

        Offsets are the writer's own: `base_offset` equals `file_base_offset`. In partition order,
        and in the order written within a partition.
        """
        for partition in sorted(self._open):
            self._close(partition)
        if self._plan.options.flush:
            self._files.sync(self._paths)
        return sorted(self._written, key=lambda entry: (entry.partition, entry.base_offset))

    def abort(self) -> None:
        """Drop the files that are still being written; finished ones are left to vacuum."""
        for segment in self._open.values():
            segment.abort()
        self._open.clear()
