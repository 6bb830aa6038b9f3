"""Compaction with a dictionary: what must be left of a log, and which segments are due."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparklog.config import TopicConfig
from sparklog.model import SegmentEntry, SegmentKey
from tests.naive.records import Record

Segments = list[SegmentEntry]


def superseded(keys: Sequence[bytes]) -> list[bool]:
    """For each key whether it comes again behind its place."""
    last = {key: place for place, key in enumerate(keys)}
    return [last[key] != place for place, key in enumerate(keys)]


@dataclass
class NaiveLog:
    """All records that are there, and for each tombstone that a compaction has seen its time."""

    delete_retention_ms: int
    records: list[Record] = field(default_factory=list)
    horizons: dict[int, int] = field(default_factory=dict)

    def compact(self, end_offset: int, now_ms: int) -> None:
        """Keep of each key below `end_offset` the latest record; tombstones until their time."""
        latest: dict[bytes | None, int] = {
            record.key: record.offset
            for record in self.records
            if record.offset < end_offset and record.key is not None
        }
        self.records = [
            record
            for record in self.records
            if record.offset >= end_offset
            or (latest.get(record.key) == record.offset and self._stays(record, now_ms))
        ]

    def _stays(self, record: Record, now_ms: int) -> bool:
        if record.value is not None:
            return True
        known = record.offset in self.horizons
        horizon = self.horizons.setdefault(record.offset, now_ms + self.delete_retention_ms)
        return not known or now_ms < horizon


def due(
    segments: Sequence[SegmentEntry],
    first_dirty: int,
    config: TopicConfig,
    now_ms: int,
) -> tuple[Segments, Segments] | None:
    """The clean and the dirty segments of a round, asked of each segment alone; None: no round."""
    clean = [one for one in segments[:-1] if one.next_offset <= first_dirty]
    rest = [one for one in segments[:-1] if one not in clean]
    lag = config.min_compaction_lag_ms
    newest = [one.created_ms if one.max_timestamp < 0 else one.max_timestamp for one in rest]
    ripe = [lag <= 0 or time <= now_ms - lag for time in newest]
    dirty = [one for number, one in enumerate(rest) if all(ripe[: number + 1])]
    if not dirty:
        return None
    dirty_bytes = sum(one.log_bytes for one in dirty)
    ratio = dirty_bytes / (dirty_bytes + sum(one.log_bytes for one in clean))
    earliest = []
    for one in dirty:
        if one.min_timestamp is not None and one.min_timestamp > 0:
            earliest.append(one.min_timestamp)
        elif one.max_timestamp > 0 and one.created_ms > 0:
            earliest.append(one.created_ms)
    is_overdue = bool(earliest) and min(earliest) < now_ms - config.max_compaction_lag_ms
    return (clean, dirty) if ratio > config.min_cleanable_dirty_ratio or is_overdue else None


def fits(group: Segments, limits: TopicConfig) -> bool:
    """Whether one segment may hold them."""
    return len(group) == 1 or (
        sum(one.log_bytes for one in group) <= limits.segment_bytes
        and sum(one.index_bytes or 0 for one in group) <= limits.segment_index_bytes
        and sum(one.time_index_bytes or 0 for one in group) <= limits.segment_index_bytes
        and group[-1].next_offset - group[0].base_offset <= 2**31
    )


def groups(
    segments: Segments, touched: frozenset[SegmentKey], limits: TopicConfig
) -> list[tuple[SegmentEntry, ...]]:
    """Each touched segment, grown to the front and then to the back as far as it may."""
    found: list[Segments] = []
    free = 0
    for at, entry in enumerate(segments):
        if entry.key not in touched or at < free:
            continue
        start, stop = at, at + 1
        while start > free and may_join(segments[start - 1 : stop], 0, touched, limits):
            start -= 1
        while stop < len(segments) and may_join(segments[start : stop + 1], -1, touched, limits):
            stop += 1
        found.append(segments[start:stop])
        free = stop
    return [tuple(group) for group in found]


def may_join(
    group: Segments, newcomer: int, touched: frozenset[SegmentKey], limits: TopicConfig
) -> bool:
    """Whether the segment at one end of the group may be in it."""
    one = group[newcomer]
    others = sum(each.log_bytes for each in group) - one.log_bytes
    return fits(group, limits) and (one.key in touched or one.log_bytes <= others)
