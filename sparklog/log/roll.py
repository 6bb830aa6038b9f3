"""When a segment is full: the rules of LogSegment.shouldRoll, applied before each batch.

    1. bytes    size of the segment > segment.bytes - size of the batch
    2. time     the segment is not empty, and waited > segment.ms - jitter, where waited is
                  maximum timestamp of the batch - that of the segment's first batch, if >= 0
                  else wall clock - creation of the segment
    3. index    either index is full, the time index with one slot left
    4. span     last offset of the batch - base offset of the file > 2^31 - 1

Rule 2 takes the time from the records if they have timestamps, so an idle segment does not roll. An
empty segment takes its first batch even against rules 2 and 3: the next one would be empty, too.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import RecordTooLargeError
from sparklog.log.indexer import INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES, Indexer
from sparklog.model import MAX_RELATIVE_OFFSET
from sparklog.record.batches import BatchTable

SEGMENT_BYTES: Final = 1024**3
"""Kafka's default of segment.bytes."""
SEGMENT_MS: Final = 7 * 24 * 3600 * 1000
"""Kafka's default of segment.ms."""
TIMESTAMP_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class OpenSegment:
    """The state of a segment that is being written, as the roll rules need it."""

    base_offset: int
    """First offset in the file's own numbering."""
    bytes: int
    first_timestamp: int
    """Maximum timestamp (ms) of the first batch; negative if it has none, or there is no batch."""
    created_ms: int
    jitter_ms: int
    """How much earlier than segment.ms the segment rolls; drawn once for each segment."""
    indexer: Indexer
    """The rules only read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPolicy:
    """The settings of a topic that end a segment, with Kafka's names and defaults.

    For a compacted topic `segment_ms` is min(segment.ms, max.compaction.lag.ms).
    """

    segment_bytes: int = SEGMENT_BYTES
    segment_ms: int = SEGMENT_MS
    jitter_ms: int = 0
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    segment_index_bytes: int = SEGMENT_INDEX_BYTES

    def draw_jitter(self, random: int) -> int:
        """Return a segment's jitter (ms) from a random int32 (LogConfig.randomSegmentJitter)."""
        span = min(self.jitter_ms, self.segment_ms)
        return abs(random) % span if span > 0 else 0

    def fits(self, segment: OpenSegment, batches: BatchTable, now_ms: int) -> int:
        """Return how many leading `batches` the segment takes before it must roll: 0 to all.

        An empty segment takes at least one, unless the first batch is more than 2^31 - 1 above its
        base. Raises RecordTooLargeError if a batch is larger than segment.bytes, so that no segment
        can take it. O(batches), vectorised.
        """
        if not len(batches):
            return 0
        self._refuse_too_large(batches)
        within = min(
            self._by_bytes(segment, batches),
            self._by_time(segment, batches, now_ms),
            segment.indexer.room(batches),
        )
        if segment.bytes == 0:
            within = max(within, 1)
        return min(within, self._by_span(segment, batches))

    def _by_bytes(self, segment: OpenSegment, batches: BatchTable) -> int:
        sizes = segment.bytes + np.cumsum(batches.size)
        return int(np.searchsorted(sizes, self.segment_bytes, "right"))

    def _by_time(self, segment: OpenSegment, batches: BatchTable, now_ms: int) -> int:
        limit = self.segment_ms - segment.jitter_ms
        first = segment.first_timestamp if segment.bytes else int(batches.max_timestamp[0])
        if first < 0:
            return 0 if now_ms - segment.created_ms > limit else len(batches)
        latest = min(first + limit, TIMESTAMP_MAX)
        return _leading(batches.max_timestamp <= latest)

    @staticmethod
    def _by_span(segment: OpenSegment, batches: BatchTable) -> int:
        return _leading(batches.last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET)

    def _refuse_too_large(self, batches: BatchTable) -> None:
        slot = int(np.argmax(batches.size))
        if batches.size[slot] > self.segment_bytes:
            raise RecordTooLargeError(
                f"batch at offset {batches.base_offset[slot]} has {batches.size[slot]} bytes,"
                f" but a segment of this topic holds {self.segment_bytes} (segment.bytes)"
            )


def _leading(holds: NDArray[np.bool_]) -> int:
    """Return how many values before the first False are True."""
    return len(holds) if holds.all() else int(np.argmin(holds))
