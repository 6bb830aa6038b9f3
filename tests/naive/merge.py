"""Which segments to join, decided the slow and obvious way."""

from collections.abc import Sequence

from sparklog.log.merge import MergeLimits
from sparklog.model import SegmentEntry

Segments = list[SegmentEntry]


def is_in_time(first: SegmentEntry, other: SegmentEntry, limit_ms: int) -> bool:
    """Whether a small group that begins with `first` may hold the other segment, by its times."""
    newest = other.created_ms if other.max_timestamp == -1 else other.max_timestamp
    if first.max_timestamp == -1:
        return newest <= first.created_ms + limit_ms
    earliest = 0 if first.min_timestamp in (None, -1) else int(first.min_timestamp or 0)
    if first.max_timestamp - earliest <= limit_ms:
        return newest <= earliest + limit_ms
    in_time = newest <= first.max_timestamp + limit_ms
    return in_time and other.created_ms <= first.created_ms + limit_ms


def fits(group: Segments, limits: MergeLimits) -> bool:
    """Whether one segment may hold all of them."""
    size = sum(one.log_bytes for one in group)
    batches = sum(one.batch_count or 0 for one in group)
    is_brief = all(is_in_time(group[0], one, limits.segment_ms) for one in group[1:])
    earliest, latest = [], []
    for one in group:
        if one.max_timestamp == -1:
            earliest.append(one.created_ms)
            latest.append(one.created_ms)
        else:
            earliest.append(0 if one.min_timestamp in (None, -1) else int(one.min_timestamp or 0))
            latest.append(one.max_timestamp)
    is_narrow = max(latest) - min(earliest) <= limits.segment_ms
    entries = 1 + min(batches, size // (limits.index_interval_bytes + 1))
    return (
        size <= limits.segment_bytes
        and (is_narrow or (size <= limits.small_bytes and is_brief))
        and entries * 12 <= limits.segment_index_bytes
        and group[-1].next_offset - group[0].base_offset <= 2**31
    )


def may_meet(one: SegmentEntry, other: SegmentEntry, cleaner_offset: int) -> bool:
    """Whether two neighbours may share a segment, sizes and spans aside."""
    if one.txn_index_path or other.txn_index_path:
        return False
    alike = bool(one.key_index_path) == bool(other.key_index_path)
    return alike and (one.base_offset < cleaner_offset) == (other.base_offset < cleaner_offset)


def open_groups(group: Segments, limits: MergeLimits) -> list[Segments]:
    """What to join of segments to which more may come."""
    if len(group) < 2:
        return []
    sizes = [one.log_bytes for one in group]
    if max(sizes) * 2 <= sum(sizes) or sum(sizes) <= limits.small_bytes:
        return [group]
    at = sizes.index(max(sizes))
    return open_groups(group[:at], limits) + open_groups(group[at + 1 :], limits)


def merge(
    entries: Sequence[SegmentEntry], limits: MergeLimits, cleaner_offset: int, log_start: int
) -> list[Segments]:
    """The groups, from the oldest on."""
    rest = [one for one in entries if one.next_offset > log_start]
    found: list[Segments] = []
    while rest:
        count = 1
        while (
            count < len(rest)
            and may_meet(rest[count - 1], rest[count], cleaner_offset)
            and fits(rest[: count + 1], limits)
        ):
            count += 1
        group, rest = rest[:count], rest[count:]
        is_full = bool(rest) and may_meet(group[-1], rest[0], cleaner_offset)
        found += [group] if is_full and count > 1 else [] if is_full else open_groups(group, limits)
    return found
