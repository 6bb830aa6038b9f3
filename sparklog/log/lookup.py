"""Find an offset or a time in one segment (LogSegment.translateOffset, findOffsetByTimestamp).

    offset index   its floor entry has the position of a batch at or before the wanted batch
    headers        are walked from there to the first batch that can have the wanted record
    records        only those of that batch are decoded. The batches before it are verified, too,
                   because a header can be trusted only if the batch's checksum is right

Each lookup asks the accelerator first (`fast_lookup.find_record`). If that cannot tell, the lookup
walks the segment window by window. Both find the same record; only the walk reports damage.

Arguments and results are offsets of the log; those of the file are lower by the segment's shift. An
index has no checksum, so each entry is compared with the batches that it leads to:

    (O, P) of the offset index   a batch begins at P, and this batch or one soon after it ends at O
    (T, O) of the time index     the batch that holds O has T as its largest timestamp; the batches
                                 before it, from the floor entry on, have a smaller one; the next
                                 entry has a larger offset; the last entry is the newest batch

A wrong index raises CorruptIndexError, and the caller looks up again without it. One kind of damage
in a time index is not noticed: its O may be that of a later batch with the same largest timestamp,
if the batches just before that batch are older.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError
from sparklog.log.fast_lookup import NOT_NAMED, FoundBatch, find_record
from sparklog.log.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.log.windows import BEGINNING, WINDOW_BYTES, SegmentLog, Window, windows
from sparklog.model import NO_TIMESTAMP, UNKNOWN_OFFSET, OffsetPosition, TimestampOffset
from sparklog.record.arrays import numbers_of
from sparklog.record.batches import BatchTable

_ANY_TIME: Final = -(2**63)


def checked_floor(segment: SegmentLog, offset: int) -> OffsetPosition:
    """Return the entry of the offset index from which a walk reaches the batch of `offset`.

    BEGINNING if no entry is low enough. Raises CorruptIndexError if no batch begins at the entry.
    """
    floor = floor_of(segment, offset - segment.entry.shift)
    if floor.position:
        next(windows(segment, floor, segment.lookup_bytes))
    return floor


def batch_from(segment: SegmentLog, offset: int) -> FoundBatch | None:
    """Return the batch that holds `offset`, or for a gap the next batch; None if there is none.

    Raises CorruptIndexError, and CorruptRecordError for damage that may hide an earlier answer.
    """
    wanted = max(offset, segment.entry.base_offset) - segment.entry.shift
    floor = floor_of(segment, wanted)
    near = find_record(segment, floor, TimestampOffset(_ANY_TIME, wanted))
    return near or _walk_to_offset(segment, floor, offset)


def first_at_or_after(segment: SegmentLog, timestamp: int, start: int) -> TimestampOffset:
    """Return the first record in file order with a time >= `timestamp` (ms) and offset >= `start`.

    The answer has the record's own timestamp; a miss is UNKNOWN_OFFSET. A control record counts, as
    in Kafka, though no reader gets it. Raises CorruptIndexError, and CorruptRecordError for damage
    that may hide an earlier answer.
    """
    named, wanted = _time_floor(segment, timestamp), start - segment.entry.shift
    if named is None or named.offset < wanted:
        return _first_from(segment, floor_of(segment, wanted), (timestamp, start))
    # Begin at the entry before, to see that no batch before the named one is as late.
    floor = floor_of(segment, named.offset - 1)
    return _first_from(segment, floor, (timestamp, start), named)


def newest(segment: SegmentLog, start: int, end: int | None = None) -> TimestampOffset:
    """Return the first record, in file order, with the largest timestamp in [start, end).

    The metadata has the offset of the segment's newest batch. If that is out of the range, or
    compaction has dropped its newest record, all headers from `start` on are walked. UNKNOWN_OFFSET
    if no record in the range has a timestamp.
    Raises CorruptIndexError, and CorruptRecordError as `first_at_or_after`.
    """
    entry = segment.entry
    best = UNKNOWN_OFFSET
    if entry.max_timestamp > best.timestamp:
        floor = floor_of(segment, max(start, entry.max_timestamp_offset) - entry.shift)
        best = _first_from(segment, floor, (entry.max_timestamp, start))
    if end is not None and best.offset >= end:
        best = UNKNOWN_OFFSET
    if best == UNKNOWN_OFFSET:
        floor = floor_of(segment, start - entry.shift)
        for window in windows(segment, floor, segment.lookup_bytes, WINDOW_BYTES):
            best = _newest_in(window, start, end, best)
            if end is not None and window.next_offset >= end:
                break
    return best


def floor_of(segment: SegmentLog, offset: int) -> OffsetPosition:
    """Return the last entry of the offset index at or below `offset`, which is one of the file.

    The entry is not yet compared with its batch. BEGINNING if no entry is low enough. Raises
    CorruptIndexError for an entry whose position is not inside the segment.
    """
    entry = segment.entry
    index = segment.offset_index() if offset > entry.file_base_offset else None
    if index is None:
        return BEGINNING
    found = index.lookup(offset)
    # No entry has the position 0, so 0 means that no entry is low enough. But if the entries are
    # out of order, `truncate_to` finds some all the same.
    if found.position == 0 and not len(index.truncate_to(offset + 1)):
        return BEGINNING
    if not 0 < found.position < entry.log_bytes:
        problem = f"entry {tuple(found)} is none of a file of {entry.log_bytes} bytes"
        raise CorruptIndexError(problem, suffix=INDEX_SUFFIX)
    return found


def _time_floor(segment: SegmentLog, timestamp: int) -> TimestampOffset | None:
    """Return the last entry of the time index at or below a time; None if there is none.

    The entry is compared with the next one and with the metadata. Raises CorruptIndexError.
    """
    index = segment.time_index()
    if index is None:
        return None
    entry, (named, after) = segment.entry, index.around(timestamp)
    if named.timestamp < 0:
        return None
    if after is not None and named.offset >= after.offset:
        raise _time_error(named, f"the next is {tuple(after)}")
    newest_offset = entry.file_base_offset + entry.max_timestamp_delta
    if after is None and (named.timestamp != entry.max_timestamp or named.offset > newest_offset):
        batch = (entry.max_timestamp, newest_offset)
        raise _time_error(named, f"it is the last, the segment's newest batch is {batch}")
    return named


def _first_from(
    segment: SegmentLog,
    floor: OffsetPosition,
    wanted: tuple[int, int],
    named: TimestampOffset | None = None,
) -> TimestampOffset:
    """Return the first record at or above `wanted`: (timestamp in ms, offset of the log).

    `named` is the entry of the time index that led here; it is compared with its batch.
    """
    least = TimestampOffset(wanted[0], wanted[1] - segment.entry.shift)
    near = find_record(segment, floor, least, named or NOT_NAMED)
    return near.record if near else _walk_to_time(segment, floor, wanted, named)


def _walk_to_offset(segment: SegmentLog, floor: OffsetPosition, offset: int) -> FoundBatch | None:
    """The walk of `batch_from`, window by window."""
    shift = segment.entry.shift
    for window in windows(segment, floor, segment.lookup_bytes, WINDOW_BYTES):
        batch = window.needed(offset).slice(0, 1)
        if len(batch):
            records = window.decoded(("offset", "timestamp"), offset, None, batch)
            has_records = records.num_rows > 0
            return FoundBatch(
                segment=segment.entry,
                index_entry=floor,
                position=window.position + int(batch.position[0]),
                size=int(batch.size[0]),
                base_offset=int(batch.base_offset[0]) + shift,
                last_offset=int(batch.last_offset[0]) + shift,
                offset=records.offset[0].as_py() if has_records else -1,
                timestamp=records.timestamp[0].as_py() if has_records else NO_TIMESTAMP,
            )
    return None


def _walk_to_time(
    segment: SegmentLog,
    floor: OffsetPosition,
    wanted: tuple[int, int],
    named: TimestampOffset | None,
) -> TimestampOffset:
    """The walk of `_first_from`, window by window."""
    for window in windows(segment, floor, segment.lookup_bytes, WINDOW_BYTES):
        named = _still_to_come(window.batches, named)
        found = _first_in(window, *wanted)
        if found != UNKNOWN_OFFSET:
            return found
    if named is not None:
        raise _time_error(named, "its offset lies behind the segment")
    return UNKNOWN_OFFSET


def _still_to_come(batches: BatchTable, named: TimestampOffset | None) -> TimestampOffset | None:
    """Return `named` if its batch is behind these batches; None if it is one of them, and fits.

    Raises CorruptIndexError if the batch does not fit.
    """
    if named is None:
        return None
    slot = int(np.searchsorted(batches.last_offset, named.offset))
    if (batches.max_timestamp[:slot] >= named.timestamp).any():
        raise _time_error(named, "an earlier batch is as late")
    if slot == len(batches):
        return named
    if batches.base_offset[slot] > named.offset or batches.max_timestamp[slot] != named.timestamp:
        raise _time_error(named, "the batch there is another")
    return None


def _time_error(named: TimestampOffset, problem: str) -> CorruptIndexError:
    return CorruptIndexError(f"entry {tuple(named)}: {problem}", suffix=TIME_INDEX_SUFFIX)


def _first_in(window: Window, timestamp: int, start: int) -> TimestampOffset:
    batches, passed = window.needed(start), 0
    for slot in np.flatnonzero(batches.max_timestamp >= timestamp).tolist():
        window.verify(batches.slice(passed, slot))
        passed = slot + 1
        records = _records(window, batches.slice(slot, passed), start)
        late = np.flatnonzero(records.timestamp >= timestamp)
        if len(late):
            return records.answer(int(late[0]))
    window.verify(batches.slice(passed))
    return UNKNOWN_OFFSET


def _newest_in(
    window: Window, start: int, end: int | None, best: TimestampOffset
) -> TimestampOffset:
    """Return the newest of `best` and the window's records; of equally new ones the first.

    Batches are opened from the newest down. One is enough unless its newest record is outside
    [start, end), or compaction has dropped it.
    """
    batches = window.needed(start, end)
    window.verify(batches)
    for slot in np.argsort(-batches.max_timestamp, kind="stable").tolist():
        if batches.max_timestamp[slot] < max(best.timestamp, 0):
            break
        records = _records(window, batches.slice(slot, slot + 1), start, end)
        if len(records.timestamp):
            found = records.answer(int(np.argmax(records.timestamp)))
            best = max(best, found, key=lambda one: (one.timestamp, -one.offset))
    return best


class _Records(NamedTuple):
    timestamp: NDArray[np.int64]
    offset: NDArray[np.int64]

    def answer(self, row: int) -> TimestampOffset:
        return TimestampOffset(int(self.timestamp[row]), int(self.offset[row]))


def _records(window: Window, batch: BatchTable, start: int, end: int | None = None) -> _Records:
    """Return the records of one batch within [start, end) of the log, in file order."""
    if batch.is_control[0]:
        # ListOffsets counts control records, though no reader gets them (FileRecords).
        window.verify(batch)
        offset = batch.last_offset + window.entry.shift
        counts = (batch.record_count > 0) & (offset >= start)
        return _Records(batch.max_timestamp[counts], offset[counts])
    found = window.decoded(("offset", "timestamp"), start, end, batch)
    return _Records(numbers_of(found.timestamp), numbers_of(found.offset))
