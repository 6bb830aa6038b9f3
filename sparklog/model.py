"""The values that every layer shares. They are immutable; their methods only do arithmetic.

An offset range is [start, end). Times are milliseconds since the epoch; -1 means "none", as in
Kafka.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from operator import index
from typing import NamedTuple, SupportsIndex

_DIGITS = re.compile("[0-9]{1,10}")

NO_TIMESTAMP = -1
"""RecordBatch.NO_TIMESTAMP: the record or batch carries no time."""

LATEST = -1
"""The log end, as a time of ListOffsets, and as an offset of DeleteRecords and Spark's reader."""
EARLIEST = -2
"""The log start, as a time of ListOffsets, and as an offset of Spark's reader."""
MAX_TIMESTAMP = -3
"""The first record with the largest timestamp, as a time of ListOffsets."""
EARLIEST_LOCAL = -4
"""The log start, as a time of ListOffsets: nothing is tiered (KIP-405)."""
LATEST_TIERED = -5
"""The last tiered offset, as a time of ListOffsets (KIP-1005): there is none."""

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Offsets inside a batch, an index or a segment are int32 relative to a base."""

STREAM_MEMBER = "@sparklog"
"""The member with a stream's own state beside the offsets in a checkpoint: no topic's name."""

SHARED_PREFIX = "__shared/"
"""The directory of the shared segments in the log dir. Each has batches of many partitions."""

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"
"""The values of isolation.level. With read_committed a reader ends at the last stable offset and
leaves out aborted records. Kafka's default is read_uncommitted."""


class Codec(IntEnum):
    """Compression of the records of a batch: the low three attribute bits (CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The clock of a record's timestamp: the producer's or the log's (TimestampType)."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def partition_number(value: object) -> int | None:
    """Return a partition's number from text, as in JSON's keys; None if it is no number."""
    text = str(value)
    return int(text) if _DIGITS.fullmatch(text) else None


def whole_number(value: object) -> int | None:
    """Return an integer, also one of numpy's, as an int; None for a bool and for anything else."""
    return (
        index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else None
    )


def offsets_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark's connector writes them: {topic: {"partition": offset}}, sorted."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


class OffsetRange(NamedTuple):
    """The offsets [start, end) of one partition."""

    partition: int
    start: int
    end: int

    @property
    def span(self) -> int:
        """How many offsets the range spans; after compaction it may have fewer records."""
        return self.end - self.start


class OffsetPosition(NamedTuple):
    """A batch whose last offset is `offset` starts at byte `position` of the `.log`."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp in ms and an offset: an answer of ListOffsets, or an entry of a time index.

    As an answer it is the found record; (-1, -1) is "none". As an entry of a time index it says
    that any record with a timestamp above `timestamp` lies after `offset`.
    """

    timestamp: int
    offset: int


UNKNOWN_OFFSET = TimestampOffset(NO_TIMESTAMP, -1)
"""ListOffsets' answer when no record matches (ListOffsetsResponse.UNKNOWN_OFFSET)."""


class SegmentKey(NamedTuple):
    """The identity of a segment within its topic."""

    partition: int
    log_path: str
    log_position: int = 0

    @property
    def is_shared(self) -> bool:
        """Whether the segment is a slice of a shared segment."""
        return self.log_path.startswith(SHARED_PREFIX)


class AbortedRange(NamedTuple):
    """The offsets of an aborted transaction, relative to the segment's base offset.

    `first_delta` is negative if the transaction began in an earlier segment.
    """

    producer_id: int
    first_delta: int
    last_delta: int


class SegmentEntry(NamedTuple):
    """One segment, as in its row of the metadata log (`metadata.state.segment_tables`).

    `base_offset` is the first offset in the log. `file_base_offset` is the first offset as the
    batches in the file count it: a reader adds `shift` to an offset in the file. The batches are
    `log_bytes` bytes of the file at `log_path`, from `log_position` on: a whole file, or a slice of
    a shared segment. Paths are relative to the topic's directory; the log_path of a shared segment
    begins with `__shared/` and is relative to the log dir. None in a column means "not yet known":
    only a walk through the file can fill it.
    """

    partition: int
    base_offset: int
    next_offset: int
    file_base_offset: int
    log_path: str
    log_bytes: int
    created_ms: int
    log_position: int = 0
    index_path: str | None = None
    index_bytes: int | None = None
    time_index_path: str | None = None
    time_index_bytes: int | None = None
    txn_index_path: str | None = None
    txn_index_bytes: int | None = None
    key_index_path: str | None = None
    key_index_bytes: int | None = None
    log_crc32c: int | None = None
    record_count: int | None = None
    batch_count: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int = NO_TIMESTAMP
    max_timestamp_delta: int = 0
    codec: int | None = None
    max_leader_epoch: int | None = None
    producer_ids: tuple[int, ...] | None = None
    transactional: bool = False
    aborted: tuple[AbortedRange, ...] = ()
    delete_horizon_ms: int | None = None
    removed_ms: int | None = None

    @property
    def key(self) -> SegmentKey:
        """The segment's identity within its topic."""
        return SegmentKey(self.partition, self.log_path, self.log_position)

    @property
    def is_shared(self) -> bool:
        """Whether its bytes are a slice of a shared segment."""
        return self.log_path.startswith(SHARED_PREFIX)

    @property
    def shift(self) -> int:
        """The log's offset of a record, minus its offset in the file; 0 for a sealed segment."""
        return self.base_offset - self.file_base_offset

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with the largest timestamp."""
        return self.base_offset + self.max_timestamp_delta

    @property
    def offset_span(self) -> int:
        """The number of offsets that the segment covers, gaps included."""
        return self.next_offset - self.base_offset

    @property
    def file_next_offset(self) -> int:
        """The offset after the segment's last one, as the file counts."""
        return self.file_base_offset + self.offset_span

    def moved_to(self, base_offset: int) -> "SegmentEntry":
        """Return the segment at another offset of the log."""
        # A fifth of the time of `_replace`: a job moves tens of thousands of segments.
        end = base_offset + self.offset_span
        return SegmentEntry._make((self.partition, base_offset, end, *self[3:]))

    def removed_at(self, removed_ms: int | None) -> "SegmentEntry":
        """Return the segment, marked as removed at a time (ms); None: as live."""
        return SegmentEntry._make((*self[:-1], removed_ms))

    @property
    def is_dense(self) -> bool:
        """Whether every offset has a record. False also if the number of records is unknown."""
        return self.record_count == self.offset_span


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic, as in `__cluster_metadata`. `configs` holds the overrides only."""

    name: str
    topic_id: str
    num_partitions: int
    configs: dict[str, str]
    created_ms: int
    deleted_ms: int | None = None
