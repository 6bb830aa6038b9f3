"""Retention, segment by segment as UnifiedLog.deleteOldSegments walks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Segment(NamedTuple):
    """As much of a segment as retention sees; -1 is no timestamp."""

    base_offset: int
    log_bytes: int
    max_timestamp: int
    created_ms: int


class Retention(NamedTuple):
    """A topic's configs, as far as they matter."""

    is_deleted: bool
    retention_bytes: int
    retention_ms: int


Breaches = Callable[[Segment, Segment | None], bool]


def deletable(segments: Sequence[Segment], breaches: Breaches) -> int:
    """How many of the oldest segments go: up to the first that does not breach."""
    count = 0
    for slot, segment in enumerate(segments):
        following = segments[slot + 1] if slot + 1 < len(segments) else None
        if not breaches(segment, following):
            break
        count += 1
    return count


def walk(
    segments: Sequence[Segment], log_start_offset: int, config: Retention, now_ms: int
) -> tuple[int, int, int]:
    """How many segments each rule takes: log start, size, time."""
    by_start = deletable(
        segments, lambda _, after: after is not None and after.base_offset <= log_start_offset
    )
    if not config.is_deleted:
        return by_start, 0, 0
    segments = segments[by_start:]
    total = sum(segment.log_bytes for segment in segments)
    over = total - config.retention_bytes

    def is_too_much(segment: Segment, _: Segment | None) -> bool:
        nonlocal over
        if over - segment.log_bytes < 0:
            return False
        over -= segment.log_bytes
        return True

    unlimited = config.retention_bytes < 0 or total < config.retention_bytes
    by_size = 0 if unlimited else deletable(segments, is_too_much)

    def is_too_old(segment: Segment, _: Segment | None) -> bool:
        has_time = segment.max_timestamp >= 0
        newest = segment.max_timestamp if has_time else segment.created_ms
        return now_ms - newest > config.retention_ms

    forever = config.retention_ms < 0
    return by_start, by_size, 0 if forever else deletable(segments[by_size:], is_too_old)
