"""A segment that is being written: its indexes, and the numbers that its row in the metadata has.

The bytes of the `.log` go from the encoder to a file, and not through this module, which gets one
batch table after another. A file numbers its records from its own base offset; the commit gives the
segment its base offset in the log.
"""

from dataclasses import dataclass

import numpy as np

from sparklog.errors import CorruptRecordError
from sparklog.log.indexer import Indexer, Indexes
from sparklog.log.roll import OpenSegment, RollPolicy
from sparklog.model import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, SegmentEntry
from sparklog.record.batches import BatchTable, Buffer
from sparklog.record.checksum import extend_crc32c


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """The numbers of a segment for its row, before it has its offsets in the log.

    Offsets are the file's own. None means "not known": `log_crc32c` if `append` did not get the
    bytes, `record_count` if a compressed message set (magic 0, 1) was not opened, `codec` if the
    batches have several codecs or if there are no batches, the others if the file was not read.
    """

    partition: int
    file_base_offset: int
    file_next_offset: int
    log_bytes: int
    log_crc32c: int | None
    batch_count: int | None
    record_count: int | None
    min_timestamp: int
    """The smallest timestamp (ms). If a batch was not decoded, the time of its first record counts
    (`BatchTable.first_timestamp`). NO_TIMESTAMP if a record has none, or if there is no record."""
    max_timestamp: int
    """In ms; NO_TIMESTAMP if no record has one."""
    max_timestamp_delta: int
    """Last offset of the first batch that has the largest timestamp - base offset."""
    codec: int | None
    max_leader_epoch: int | None
    """-1 if no batch has one."""
    producer_ids: tuple[int, ...] | None
    transactional: bool

    def entry(
        self,
        base_offset: int,
        created_ms: int,
        log_path: str,
        *,
        index_path: str | None = None,
        time_index_path: str | None = None,
        indexes: Indexes | None = None,
    ) -> SegmentEntry:
        """Return the metadata's row of this segment at `base_offset` of the log.

        With `indexes` the row has their sizes. A size of 0 without a path means that the index was
        built and is empty; without a size it was not built.
        """
        return SegmentEntry(
            partition=self.partition,
            base_offset=base_offset,
            next_offset=base_offset + self.file_next_offset - self.file_base_offset,
            file_base_offset=self.file_base_offset,
            log_path=log_path,
            log_bytes=self.log_bytes,
            index_path=index_path,
            index_bytes=None if indexes is None else len(indexes.offset_index),
            time_index_path=time_index_path,
            time_index_bytes=None if indexes is None else len(indexes.time_index),
            log_crc32c=self.log_crc32c,
            record_count=self.record_count,
            batch_count=self.batch_count,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            max_timestamp_delta=self.max_timestamp_delta,
            codec=self.codec,
            max_leader_epoch=self.max_leader_epoch,
            producer_ids=self.producer_ids,
            transactional=self.transactional,
            created_ms=created_ms,
        )


class SegmentBuilder:
    """Collects the numbers and the index entries of a segment while its batches are written."""

    def __init__(
        self,
        file_base_offset: int,
        partition: int,
        policy: RollPolicy | None = None,
        *,
        created_ms: int = 0,
        jitter_ms: int = 0,
    ) -> None:
        self.file_base_offset = file_base_offset
        self.partition = partition
        self.policy = policy or RollPolicy()
        self.next_offset = file_base_offset
        """The smallest offset, in the file's numbering, at which the next batch may begin."""
        self.batch_count = 0
        self._created_ms = created_ms
        self._jitter_ms = jitter_ms
        self._indexer = Indexer(
            file_base_offset, self.policy.index_interval_bytes, self.policy.segment_index_bytes
        )
        self._first_timestamp = NO_TIMESTAMP
        self._record_count: int | None = 0
        self._min_timestamps: list[int] = []
        self._crc32c: int | None = 0
        self._codecs: set[int] = set()
        self._max_leader_epoch = -1
        self._producer_ids: set[int] = set()
        self._transactional = False

    @property
    def producer_count(self) -> int:
        """How many different producer ids the batches have so far."""
        return len(self._producer_ids)

    @property
    def log_bytes(self) -> int:
        """Bytes of the `.log` so far."""
        return self._indexer.bytes

    def fits(self, batches: BatchTable, now_ms: int) -> int:
        """Return how many leading `batches` the segment takes before it must roll (RollPolicy)."""
        segment = OpenSegment(
            base_offset=self.file_base_offset,
            bytes=self.log_bytes,
            first_timestamp=self._first_timestamp,
            created_ms=self._created_ms,
            jitter_ms=self._jitter_ms,
            indexer=self._indexer,
        )
        return self.policy.fits(segment, batches, now_ms)

    def append(
        self, batches: BatchTable, *, min_timestamp: int | None = None, data: "Buffer | None" = None
    ) -> None:
        """Take the next batches of the file; of their positions only the order matters.

        `min_timestamp` (ms) is the smallest of their records. It is None if the caller has not
        decoded them; then the times of their first records count. `data` has the bytes of these
        batches alone, for the file's CRC-32C; if one call leaves it out, the segment has none.
        Raises CorruptRecordError, and changes nothing, if offsets do not grow or do not fit the
        int32 of an index.
        """
        if not len(batches):
            return
        problem = offsets_problem(batches, self.file_base_offset, self.next_offset)
        if problem is not None:
            raise problem
        if self.batch_count == 0:
            self._first_timestamp = int(batches.max_timestamp[0])
        self._indexer.append(batches)
        self.batch_count += len(batches)
        self.next_offset = int(batches.last_offset[-1]) + 1
        if min_timestamp is None:
            min_timestamp = int(batches.first_timestamp.min())
        self._min_timestamps.append(min_timestamp)
        self._collect(batches)
        if data is None:
            self._crc32c = None
        elif self._crc32c is not None:
            self._crc32c = extend_crc32c(self._crc32c, data)

    def finish(self) -> tuple[SegmentSummary, Indexes]:
        """Return the numbers and the index files of the batches so far."""
        max_timestamp, max_timestamp_offset = self._indexer.newest
        summary = SegmentSummary(
            partition=self.partition,
            file_base_offset=self.file_base_offset,
            file_next_offset=self.next_offset,
            log_bytes=self.log_bytes,
            log_crc32c=self._crc32c,
            batch_count=self.batch_count,
            record_count=self._record_count,
            min_timestamp=min(self._min_timestamps, default=NO_TIMESTAMP),
            max_timestamp=max_timestamp,
            max_timestamp_delta=max_timestamp_offset - self.file_base_offset,
            codec=min(self._codecs) if len(self._codecs) == 1 else None,
            max_leader_epoch=self._max_leader_epoch,
            producer_ids=tuple(sorted(self._producer_ids)),
            transactional=self._transactional,
        )
        return summary, self._indexer.finish()

    def _collect(self, batches: BatchTable) -> None:
        if batches.record_count.min() < 0:
            self._record_count = None
        elif self._record_count is not None:
            self._record_count += int(batches.record_count.sum())
        self._codecs.update(np.unique(batches.codec).tolist())
        self._max_leader_epoch = max(self._max_leader_epoch, int(batches.leader_epoch.max()))
        producers = np.unique(batches.producer_id)
        self._producer_ids.update(producers[producers >= 0].tolist())
        self._transactional = self._transactional or bool(batches.is_transactional.any())


def offsets_problem(
    batches: BatchTable, base_offset: int, next_offset: int
) -> CorruptRecordError | None:
    """Return the error of the first batch whose offsets are not allowed; None if there is none.

    The first batch must begin at `next_offset` or above it, and offsets must grow from batch to
    batch. They must be at most 2^31 - 1 above `base_offset`, that of the file. Gaps are allowed,
    because compaction leaves them.
    """
    fits = batches.last_offset - base_offset <= MAX_RELATIVE_OFFSET
    holds = batches.rises(next_offset) & fits
    if holds.all():
        return None
    slot = int(np.argmin(holds))
    first, last = int(batches.base_offset[slot]), int(batches.last_offset[slot])
    due = batches.due_offsets(next_offset)[slot]
    return CorruptRecordError(
        f"batch of offsets {first} to {last}, where {due} or more is due and at most"
        f" {base_offset + MAX_RELATIVE_OFFSET}",
        position=int(batches.position[slot]),
        offset=first,
    )
