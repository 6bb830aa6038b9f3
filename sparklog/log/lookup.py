"""Where in one segment an offset or a time is (LogSegment.translateOffset, findOffsetByTimestamp).

    offset index   the batch at its floor entry's position lies at or before the one looked for
    headers        are walked from there, window by window, to the first batch that can answer
    records        of that batch alone are decoded

Offsets are asked for and answered as offsets of the log; the file's own are lower by the segment's
`shift`. Indexes have no checksum, so what they say is checked against the batches they name: an
index that is wrong raises CorruptIndexError, and the caller asks again without it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError, CorruptRecordError
from sparklog.log.offset_index import OffsetIndex
from sparklog.log.time_index import TimeIndex
from sparklog.model import UNKNOWN_OFFSET, OffsetPosition, TimestampOffset
from sparklog.record.batches import BatchTable, Buffer, byte_view
from sparklog.record.decode import decode
from sparklog.record.scan import Scan, scan_batches, verify_checksums

WINDOW_BYTES: Final = 64 * 1024
"""An index leads to within about 4 KB and a batch, so most lookups are one read."""
WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SegmentData:
    """One segment's bytes, as they are needed."""

    read: Callable[[int, int], Buffer]
    """read(position, length) of the `.log`, always within it; a slice of a memory map will do."""
    log_bytes: int
    shift: int = 0
    """Base offset in the log - base offset in the file."""
    offset_index: OffsetIndex | None = None
    """None when there is none: the file is walked from its beginning."""
    time_index: TimeIndex | None = None
    window_bytes: int = WINDOW_BYTES
    """What is read at first; later reads grow to WINDOW_BYTES_MAX."""


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """Some whole batches; their positions are positions in `data`, which begins at `origin`."""

    segment: SegmentData
    origin: int
    data: NDArray[np.uint8]
    batches: BatchTable

    def records(self, slot: int, start: int) -> list[TimestampOffset]:
        """The records of one batch at or above the log's offset `start`, in file order."""
        batch = self.batches.slice(slot, slot + 1)
        shift = self.segment.shift
        try:
            verify_checksums(self.data, batch)
            if batch.is_control[0]:
                # No record to a reader, but ListOffsets counts it as one (FileRecords).
                offset = int(batch.last_offset[0]) + shift
                return [TimestampOffset(int(batch.max_timestamp[0]), offset)] * (offset >= start)
            found = decode(
                self.data,
                batch,
                columns=("offset", "timestamp"),
                shift=shift,
                start_offset=start,
            )
        except CorruptRecordError as error:
            raise type(error)(
                str(error.args[0]),
                position=(error.position or 0) + self.origin,
                offset=int(batch.base_offset[0]) + shift,
            ) from None
        pairs = zip(found.timestamp.to_pylist(), found.offset.to_pylist(), strict=True)
        return [TimestampOffset(*pair) for pair in pairs]


def batch_position(segment: SegmentData, offset: int) -> int:
    """Where the first batch begins whose last offset is at or above `offset` of the log.

    The size of the log when there is none. Raises CorruptIndexError and CorruptRecordError.
    """
    wanted = offset - segment.shift
    for window in _windows(segment, _floor(segment, wanted)):
        slot = int(np.searchsorted(window.batches.last_offset, wanted))
        if slot < len(window.batches):
            return int(window.batches.position[slot]) + window.origin
    return segment.log_bytes


def first_at_or_after(segment: SegmentData, timestamp: int, start: int) -> TimestampOffset:
    """The first record in file order with a time >= `timestamp` (ms) and an offset >= `start`.

    Answered with its own timestamp; UNKNOWN_OFFSET when there is none. Raises CorruptIndexError
    and CorruptRecordError.
    """
    entry = None if segment.time_index is None else segment.time_index.lookup(timestamp)
    if entry is None or entry.timestamp < 0:
        floor, entry = _floor(segment, start - segment.shift), None
    else:
        floor = _floor(segment, max(entry.offset, start - segment.shift))
        # Checked when the walk meets the batch it names, which it does not if it begins later.
        entry = entry if floor.offset <= entry.offset else None
    for window in _windows(segment, floor):
        entry = _checked(window.batches, entry)
        may_match = window.batches.max_timestamp >= timestamp
        may_match &= window.batches.last_offset >= start - segment.shift
        for slot in np.flatnonzero(may_match).tolist():
            for record in window.records(slot, start):
                if record.timestamp >= timestamp:
                    return record
    if entry is not None:
        raise CorruptIndexError(f"time index entry {tuple(entry)}: its offset lies behind the log")
    return UNKNOWN_OFFSET


def newest(
    segment: SegmentData, start: int, hint: TimestampOffset | None = None
) -> TimestampOffset:
    """The first record in file order that has the largest timestamp of those at or above `start`.

    `hint` is what the manifest says: the segment's largest timestamp and the last offset (of the
    log) of the earliest batch that holds it. It leads to the answer at once unless the record lies
    below `start`; else all headers from `start` on are walked. UNKNOWN_OFFSET when no record has a
    timestamp. Raises CorruptIndexError and CorruptRecordError.
    """
    best = UNKNOWN_OFFSET
    if hint is not None and hint.timestamp >= 0 and hint.offset >= start:
        best = _newest_in_batch(segment, start, hint)
    if best == UNKNOWN_OFFSET:
        for window in _windows(segment, _floor(segment, start - segment.shift)):
            best = _newest_in_window(window, start, best)
    return best


def _newest_in_batch(segment: SegmentData, start: int, hint: TimestampOffset) -> TimestampOffset:
    wanted = hint.offset - segment.shift
    for window in _windows(segment, _floor(segment, wanted)):
        slot = int(np.searchsorted(window.batches.last_offset, wanted))
        if slot < len(window.batches):
            matches = (r for r in window.records(slot, start) if r.timestamp == hint.timestamp)
            return next(matches, UNKNOWN_OFFSET)
    return UNKNOWN_OFFSET


def _newest_in_window(window: _Window, start: int, best: TimestampOffset) -> TimestampOffset:
    """The newest of `best` and the window's records.

    Batches are opened from the latest down, for only the one that `start` cuts may hold less than
    its header says, or one that compaction has emptied.
    """
    batches = window.batches
    may_win = (batches.max_timestamp > best.timestamp) & (batches.record_count != 0)
    may_win &= batches.last_offset >= start - window.segment.shift
    slots = np.flatnonzero(may_win)
    latest_first = slots[np.argsort(-batches.max_timestamp[slots], kind="stable")]
    for slot in latest_first.tolist():
        if batches.max_timestamp[slot] <= best.timestamp:
            break
        best = max([best, *window.records(slot, start)], key=lambda record: record.timestamp)
    return best


def _floor(segment: SegmentData, offset: int) -> OffsetPosition:
    """The offset index's entry for the file's own `offset`; the beginning without an index."""
    index = segment.offset_index
    return OffsetPosition(0, 0) if index is None else index.lookup(offset)


def _checked(batches: BatchTable, entry: TimestampOffset | None) -> TimestampOffset | None:
    """The time index entry if the batch it names is still to come; None when it was met and fits.

    The batch that holds its offset must have its timestamp as maximum.
    """
    if entry is None:
        return None
    slot = int(np.searchsorted(batches.last_offset, entry.offset))
    if slot == len(batches):
        return entry
    if batches.max_timestamp[slot] != entry.timestamp:
        raise CorruptIndexError(
            f"time index entry {tuple(entry)}: the batch that ends at offset"
            f" {batches.last_offset[slot]} has the largest timestamp {batches.max_timestamp[slot]}"
        )
    return None


def _windows(segment: SegmentData, floor: OffsetPosition) -> Iterator[_Window]:
    """Whole batches from the entry's position to the end of the log, in growing windows."""
    position, size = floor.position, segment.window_bytes
    while position < segment.log_bytes:
        length = min(size, segment.log_bytes - position)
        data = byte_view(segment.read(position, length))
        scan = scan_batches(data)
        size = min(size * 2, WINDOW_BYTES_MAX)
        if len(scan.batches):
            if position == floor.position:
                _check_floor(floor, int(scan.batches.last_offset[0]))
            yield _Window(segment, position, data, scan.batches)
            position += scan.end
        elif _is_cut(scan) and position + length < segment.log_bytes and len(data) == length:
            size = max(size, 2 * length)  # a batch larger than the window
        else:
            raise _no_batch(floor, position, scan.problem or "the file ends here")


def _is_cut(scan: Scan) -> bool:
    return scan.problem is not None and scan.problem.startswith("truncated")


def _check_floor(floor: OffsetPosition, last_offset: int) -> None:
    """The batch at an entry's position ends at the entry's offset.

    Before Kafka 4 an entry named the first batch of an append and the last offset of all of it.
    """
    if floor.position and last_offset > floor.offset:
        raise CorruptIndexError(
            f"offset index entry {tuple(floor)}: the batch there ends at offset {last_offset}"
        )


def _no_batch(
    floor: OffsetPosition, position: int, problem: str
) -> CorruptIndexError | CorruptRecordError:
    """The index is to blame when it led here, the log otherwise."""
    if floor.position and position == floor.position:
        return CorruptIndexError(f"offset index entry {tuple(floor)}: no batch begins there")
    return CorruptRecordError(problem, position=position)
