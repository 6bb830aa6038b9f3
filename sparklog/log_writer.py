"""Produce: records to segment files, segment files to one commit.

    plan_write      a snapshot -> WritePlan, which travels to whoever writes
    TopicWriter     rows -> segment files of one writer (a Spark task, a command, a request)
    commit_write    the files of all writers -> offsets, in one commit

A writer does not know the offsets it will get: it numbers its files from 0 and goes on where its
last file of that partition ended; the commit places them. Nothing is visible before it, and files
of a writer that never commits are unlinked by vacuum alone.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.clock import Clock
from sparklog.config import TopicConfig
from sparklog.errors import InvalidRecordError, InvalidTimestampError
from sparklog.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    partition_dir,
    segment_name,
    uuid7,
)
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.manifest.catalog import Catalog, topic_directory
from sparklog.manifest.store import Change, Committed, Done, ManifestStore, Snapshot, at_log_end
from sparklog.model import Codec, SegmentEntry, TimestampType, TopicDescription
from sparklog.produce.partitioner import merge_explicit, resolve_partitioner
from sparklog.record.encode import BatchSettings, EncodedStream, RecordColumns, encode
from sparklog.storage.files import Files, NewFile

UPLOAD_PART_BYTES: Final = 10 * 1024 * 1024
"""An object store's file is sent in parts of this size; what is no whole part yet is in memory."""
HELD_BYTES_MAX: Final = 128 * 1024 * 1024
"""Most bytes of all open segments of a writer that wait so; beyond it the largest are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a produce call may ask for; None leaves it to the topic.

    Kafka's producer configs: `compression.type`, `batch.size` (bytes before compression),
    `partitioner`; `segment.bytes` may be below the topic's least; `flush` is fsync or none.
    """

    compression_type: str | None = None
    batch_size: int = 16384
    partitioner: str | None = None
    segment_bytes: int | None = None
    flush: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "WriteOptions":
        """Return what the typed values of PRODUCE_OPTIONS ask for (sparklog.config.options)."""
        return cls(
            compression_type=given["compression.type"],
            batch_size=given["batch.size"],
            partitioner=given["partitioner"],
            segment_bytes=given["segment.bytes"],
            flush=given["flush"] == "fsync",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What a writer needs to know of a topic, made once a produce. Picklable.

    `now_ms` is the planning time: the time of records that have none, and LogAppendTime.
    """

    topic: TopicDescription
    config: TopicConfig
    leader_epoch: int
    now_ms: int
    options: WriteOptions = field(default_factory=WriteOptions)

    @property
    def partitioner(self) -> str:
        """The name of the partitioner: the call's, else the topic's."""
        return self.options.partitioner or self.config.partitioner

    @property
    def _segment_bytes(self) -> int:
        return self.options.segment_bytes or self.config.segment_bytes

    @property
    def batch_settings(self) -> BatchSettings:
        """How batches are encoded: the topic's compression beats the call's, as in a broker."""
        codec = self.config.codec
        if codec is None:
            codec = Codec[(self.options.compression_type or "none").upper()]
        timestamp_type = self.config.timestamp_type
        is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
        return BatchSettings(
            codec=codec,
            level=self.config.compression_level(codec),
            # A batch larger than a segment would be refused.
            batch_bytes=min(self.options.batch_size, self._segment_bytes),
            max_message_bytes=self.config.max_message_bytes,
            timestamp_type=timestamp_type,
            log_append_time_ms=self.now_ms if is_append_time else -1,
            leader_epoch=self.leader_epoch,
        )

    @property
    def roll_policy(self) -> RollPolicy:
        """When a segment is full."""
        return RollPolicy(
            segment_bytes=self._segment_bytes,
            segment_ms=self.config.max_segment_ms,
            jitter_ms=self.config.segment_jitter_ms,
            index_interval_bytes=self.config.index_interval_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
        )


def plan_write(catalog: Catalog, topic: str, options: WriteOptions) -> WritePlan:
    """Return the plan of a write to a topic, from the newest snapshot. Raises UnknownTopicError."""
    return plan_write_to(catalog, catalog.topic(topic), options)


def plan_write_to(
    catalog: Catalog, description: TopicDescription, options: WriteOptions
) -> WritePlan:
    """Return the plan of a write to a topic that has been looked up already."""
    states = catalog.store(description).snapshot().states
    return WritePlan(
        topic=description,
        config=TopicConfig.parse(description.configs),
        leader_epoch=max((state.leader_epoch for state in states.values()), default=0),
        now_ms=catalog.clock.now_ms(),
        options=options,
    )


@dataclass(slots=True)
class _OpenSegment:
    """A segment file that is being written."""

    builder: SegmentBuilder
    file: NewFile
    uuid: str


class TopicWriter:
    """Writes one writer's rows of one topic into segment files, one at a time per partition.

    `seed` draws what may differ between writers: sticky partitions and segment jitter.
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
        self._open: dict[int, _OpenSegment] = {}
        self._written: list[SegmentEntry] = []
        self._paths: list[str] = []

    def write(self, columns: RecordColumns, partition: pa.Array | None = None) -> None:
        """Append rows; `partition` (int32, nullable) decides where it is not null.

        Raises InvalidRecordError, InvalidTimestampError, RecordTooLargeError, UnknownTopicError
        (a partition out of range): the writer is then to be aborted.
        """
        check_rows(columns, self._plan)
        partitions = merge_explicit(
            partition,
            lambda: self._partitioner.assign(columns, self._plan.topic.num_partitions),
            self._plan.topic.num_partitions,
        )
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
            partition: segment.file.bytes_written % UPLOAD_PART_BYTES
            for partition, segment in self._open.items()
        }
        while sum(held.values()) > HELD_BYTES_MAX:
            largest = max(held, key=lambda partition: held[partition])
            self._close(largest)
            del held[largest]

    def _append(self, stream: EncodedStream) -> None:
        batches, start = stream.batches, 0
        while len(batches):
            segment = self._segment(stream.stream)
            count = segment.builder.fits(batches, self._clock.now_ms())
            if count:
                end = int(batches.end_position[count - 1])
                data = stream.data[start:end]
                segment.file.write(data)
                if self._plan.options.flush:
                    segment.file.write_behind()
                # Of a part of the stream the smallest timestamp is not known without decoding.
                is_whole = count == len(stream.batches)
                segment.builder.append(
                    batches.slice(0, count),
                    min_timestamp=stream.min_timestamp if is_whole else None,
                    data=data,
                )
                batches, start = batches.slice(count), end
            if len(batches):
                self._close(stream.stream)
        self._next_offsets[stream.stream] += stream.record_count

    def _segment(self, partition: int) -> _OpenSegment:
        segment = self._open.get(partition)
        if segment is None:
            segment = self._open[partition] = self._created(partition)
        return segment

    def _created(self, partition: int) -> _OpenSegment:
        done = [entry for entry in self._written if entry.partition == partition]
        base = done[-1].next_offset if done else 0
        now_ms = self._clock.now_ms()
        uuid = uuid7(now_ms, os.urandom(10))
        builder = SegmentBuilder(
            base,
            partition,
            self._policy,
            created_ms=now_ms,
            jitter_ms=self._policy.draw_jitter(int(self._random.integers(0, 2**31))),
        )
        path = self._path(partition, base, uuid, LOG_SUFFIX)
        return _OpenSegment(builder, self._files.create(path), uuid)

    def _path(self, partition: int, base: int, uuid: str, suffix: str) -> str:
        directory = topic_directory(self._plan.topic)
        inside = partition_dir(self._plan.topic.name, partition)
        return f"{directory}/{inside}/{segment_name(base, uuid, suffix)}"

    def _close(self, partition: int) -> None:
        """Finish a segment: its `.log`, then its indexes where the topic builds them on write."""
        segment = self._open.pop(partition)
        segment.file.close()
        summary, indexes = segment.builder.finish()
        base = summary.file_base_offset
        written = {LOG_SUFFIX: segment.file.path}
        if self._plan.config.index_build == "write":
            for suffix, data in (
                (INDEX_SUFFIX, indexes.offset_index),
                (TIME_INDEX_SUFFIX, indexes.time_index),
            ):
                if data:
                    written[suffix] = self._path(partition, base, segment.uuid, suffix)
                    self._files.write_new(written[suffix], data)
        self._paths += written.values()
        prefix = len(topic_directory(self._plan.topic)) + 1
        paths = {suffix: path[prefix:] for suffix, path in written.items()}
        is_indexed = self._plan.config.index_build == "write"
        self._written.append(
            summary.entry(
                base,
                self._clock.now_ms(),
                paths[LOG_SUFFIX],
                index_path=paths.get(INDEX_SUFFIX),
                time_index_path=paths.get(TIME_INDEX_SUFFIX),
                indexes=indexes if is_indexed else None,
            )
        )

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
            segment.file.abort()
        self._open.clear()


def check_rows(columns: RecordColumns, plan: WritePlan) -> None:
    """Refuse rows as a leader would (LogValidator). Times are those of the plan."""
    if plan.config.is_compacted and columns.key.null_count:
        row = pc.index(pc.is_null(columns.key), True).as_py()
        raise InvalidRecordError(
            f"topic {plan.topic.name!r} is compacted, so every record needs a key: "
            f"the one in row {row} has none"
        )
    is_append_time = plan.config.timestamp_type is TimestampType.LOG_APPEND_TIME
    if is_append_time or not len(columns.timestamp):
        return
    before = plan.config.message_timestamp_before_max_ms
    after = plan.config.message_timestamp_after_max_ms
    earliest, latest = int(columns.timestamp.min()), int(columns.timestamp.max())
    if earliest < 0:
        raise InvalidTimestampError(
            f"topic {plan.topic.name!r}: timestamp {earliest} in row "
            f"{_row_of(columns.timestamp, earliest)} is negative; allowed are milliseconds since "
            f"1970, from 0"
        )
    if plan.now_ms - earliest > before:
        _refuse_skew(plan, columns.timestamp, earliest, f"message.timestamp.before.max.ms={before}")
    if latest - plan.now_ms > after:
        _refuse_skew(plan, columns.timestamp, latest, f"message.timestamp.after.max.ms={after}")


def _refuse_skew(
    plan: WritePlan, timestamps: NDArray[np.int64], timestamp: int, limit: str
) -> None:
    raise InvalidTimestampError(
        f"topic {plan.topic.name!r}: timestamp {timestamp} in row {_row_of(timestamps, timestamp)} "
        f"is {abs(plan.now_ms - timestamp)} ms away from {plan.now_ms}; allowed by {limit}"
    )


def _row_of(timestamps: NDArray[np.int64], timestamp: int) -> int:
    return int(np.argmax(timestamps == timestamp))


def is_committed(store: ManifestStore, app_id: str, version: int) -> bool:
    """Whether a write with this id has landed: asked before the work of writing is done."""
    return store.commit(lambda _: Done(), app_id=app_id, version=version).replayed


def commit_write(
    store: ManifestStore,
    plan: WritePlan,
    pending: Sequence[SegmentEntry],
    *,
    app_id: str | None = None,
    version: int | None = None,
) -> Committed:
    """Make what was written visible in one commit, at the log end of each partition.

    Segments get their offsets in the order given. With `app_id` and `version` this happens once.
    Raises what `ManifestStore.commit` raises; TopicClosedError when the topic is being deleted.
    """
    partitions = {entry.partition for entry in pending}

    def place(snapshot: Snapshot) -> Change:
        return Change(
            segments=at_log_end(snapshot, pending),
            leader_epochs=dict.fromkeys(partitions, plan.leader_epoch),
            partition_count=plan.topic.num_partitions,
        )

    return store.commit(place, app_id=app_id, version=version)


def in_order(results: Iterable[tuple[int, Sequence[SegmentEntry]]]) -> list[SegmentEntry]:
    """Return the segments of (task, segments) in the order they get offsets: task, then file."""
    ordered = sorted(results, key=lambda result: result[0])
    return [entry for _, entries in ordered for entry in entries]
