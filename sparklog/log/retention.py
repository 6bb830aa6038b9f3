"""Which of a partition's oldest segments expire: Kafka's three rules, in Kafka's order.

    rule            a segment expires if                                   in topics
    start offset    the next segment begins at or below the log start      all
    size            without it there are still at least retention.bytes    cleanup.policy: delete
    time            now - its newest timestamp > retention.ms              cleanup.policy: delete

Each rule begins with the oldest segment that is left, and ends at the first segment that stays. So
a young segment protects all later ones (UnifiedLog.deleteOldSegments). If all segments expire, a
broker rolls an empty one, which keeps the log end offset. Here the metadata keeps it, so all
segments may expire.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.config.topic import TopicConfig


class Expired(NamedTuple):
    """How many of the oldest segments expire by each rule, and the log start offset after that."""

    by_start_offset: int
    by_size: int
    by_time: int
    log_start_offset: int

    @property
    def total(self) -> int:
        """How many segments expire."""
        return self.by_start_offset + self.by_size + self.by_time


class Segments(NamedTuple):
    """The live segments of a partition, as the rules need them: int64 arrays, in offset order.

    `newest_ms` is the largest timestamp of a segment, or the time it was made if it has none (a
    broker takes the file's modification time, LogSegment.largestTimestamp).
    """

    base_offset: NDArray[np.int64]
    log_bytes: NDArray[np.int64]
    newest_ms: NDArray[np.int64]

    def without_oldest(self, count: int) -> "Segments":
        """Return the segments after the first `count`."""
        return Segments(*(column[count:] for column in self))


def expired_segments(
    segments: Segments, log_start_offset: int, log_end_offset: int, config: TopicConfig, now_ms: int
) -> Expired:
    """Return how many of a partition's oldest segments expire now.

    The log start offset becomes the base of the first segment that stays, or the log end offset if
    none stays; it never falls.
    """
    by_start_offset = _below_start(segments, log_start_offset)
    by_size = by_time = 0
    if config.is_deleted:
        left = segments.without_oldest(by_start_offset)
        by_size = _over_size(left, config.retention_bytes)
        by_time = _over_age(left.without_oldest(by_size), config.retention_ms, now_ms)
    count = by_start_offset + by_size + by_time
    if count:
        bases = segments.base_offset[count:]
        first = int(bases[0]) if len(bases) else log_end_offset
        log_start_offset = max(log_start_offset, first)
    return Expired(by_start_offset, by_size, by_time, log_start_offset)


def _below_start(segments: Segments, log_start_offset: int) -> int:
    """Return how many expire; never the newest one (deleteLogStartOffsetBreachedSegments)."""
    return int(segments.base_offset[1:].searchsorted(log_start_offset, "right"))


def _over_size(segments: Segments, retention_bytes: int) -> int:
    """Return how many expire if retention.bytes stay (deleteRetentionSizeBreachedSegments)."""
    excess = int(segments.log_bytes.sum()) - retention_bytes
    if retention_bytes < 0 or excess < 0:
        return 0
    return int(segments.log_bytes.cumsum().searchsorted(excess, "right"))


def _over_age(segments: Segments, retention_ms: int, now_ms: int) -> int:
    """Return how many are older than retention.ms (deleteRetentionMsBreachedSegments)."""
    if retention_ms < 0:
        return 0
    stays = now_ms - segments.newest_ms <= retention_ms
    return int(stays.argmax()) if stays.any() else len(stays)
