"""What sparklog.log answers, computed the slow and obvious way."""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparklog.model import UNKNOWN_OFFSET, OffsetPosition, TimestampOffset


class Batch(NamedTuple):
    """As much of a record batch as the indexes see."""

    last_offset: int
    max_timestamp: int
    size: int


class Record(NamedTuple):
    """As much of a record as ListOffsets sees."""

    offset: int
    timestamp: int


def floor_offset(entries: Iterable[tuple[int, int]], base: int, target: int) -> OffsetPosition:
    """The last (offset, position) with an offset at or below `target`, looking at every entry."""
    answer = OffsetPosition(base, 0)
    for offset, position in entries:
        if offset <= target:
            answer = OffsetPosition(offset, position)
    return answer


def floor_timestamp(entries: Iterable[tuple[int, int]], base: int, target: int) -> TimestampOffset:
    """The last (timestamp, offset) with a time at or below `target`, looking at every entry."""
    answer = TimestampOffset(-1, base)
    for timestamp, offset in entries:
        if timestamp <= target:
            answer = TimestampOffset(timestamp, offset)
    return answer


def index_entries(
    batches: Iterable[Batch], base: int, interval: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Offset and time entries of a file, batch by batch, as LogSegment.append adds them."""
    offset_entries: list[tuple[int, int]] = []
    time_entries: list[tuple[int, int]] = []
    position, since, newest = 0, 0, (-1, base)

    def maybe_append() -> None:
        if newest[0] > (time_entries[-1][0] if time_entries else -1):
            time_entries.append(newest)

    for batch in batches:
        if batch.max_timestamp > newest[0]:
            newest = (batch.max_timestamp, batch.last_offset)
        if since > interval:
            offset_entries.append((batch.last_offset, position))
            maybe_append()
            since = 0
        since += batch.size
        position += batch.size
    maybe_append()
    return offset_entries, time_entries


def index_files(batches: Iterable[Batch], base: int, interval: int) -> tuple[bytes, bytes]:
    """The bytes of `.index` and `.timeindex`, entry by entry."""
    offsets, times = index_entries(batches, base, interval)
    return (
        b"".join(struct.pack(">ii", offset - base, position) for offset, position in offsets),
        b"".join(struct.pack(">qi", time, offset - base) for time, offset in times),
    )


def first_at_or_after(records: Sequence[Record], timestamp: int, start: int) -> TimestampOffset:
    """ListOffsets for a time, by looking at every record in file order."""
    for record in records:
        if record.offset >= start and record.timestamp >= timestamp:
            return TimestampOffset(record.timestamp, record.offset)
    return UNKNOWN_OFFSET


def newest(records: Sequence[Record]) -> TimestampOffset:
    """ListOffsets for the largest timestamp: the first record that has it."""
    answer = UNKNOWN_OFFSET
    for record in records:
        if record.timestamp > answer.timestamp:
            answer = TimestampOffset(record.timestamp, record.offset)
    return answer


def rolls_before(
    written: Sequence[Batch], batch: Batch, rules: tuple[int, int, int, int], base: int, age_ms: int
) -> bool:
    """LogSegment.shouldRoll for one batch after those written; not for an empty segment.

    `rules` are segment.bytes, segment.ms less jitter, index.interval.bytes, segment.index.bytes.
    """
    segment_bytes, segment_ms, interval, index_bytes = rules
    size = sum(earlier.size for earlier in written)
    first = written[0].max_timestamp
    waited = batch.max_timestamp - first if first >= 0 else age_ms
    offsets, times = _entries_before_the_end(written, base, interval)
    return (
        size > segment_bytes - batch.size
        or waited > segment_ms
        or offsets >= index_bytes // 8
        or times >= index_bytes // 12 - 1
        or not 0 <= batch.last_offset - base <= 2**31 - 1
    )


def _entries_before_the_end(written: Sequence[Batch], base: int, interval: int) -> tuple[int, int]:
    """How many entries each index of an open segment has: the last time entry is not yet there."""
    offsets, times = index_entries(written, base, interval)
    at_the_end = {offset for offset, _ in offsets}
    indexed = [
        max(batch.max_timestamp for batch in written[: slot + 1])
        for slot, batch in enumerate(written)
        if batch.last_offset in at_the_end
    ]
    return len(offsets), sum(time <= max(indexed, default=-1) for time, _ in times)
