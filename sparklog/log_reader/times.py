"""ListOffsets by time: which record is the first at or after T, which has the largest timestamp.

The segment list narrows a question to one segment, its indexes to some kilobytes of it, and the
batches there are walked by their headers; only a batch that can answer is decoded.
"""

from typing import Final

import numpy as np
import pyarrow.compute as pc

from sparklog.log.segments import SegmentList
from sparklog.log.time_index import TimeIndex
from sparklog.log_reader.indexes import distrust, index_bytes, start_position
from sparklog.log_reader.windows import Window, windows
from sparklog.model import UNKNOWN_OFFSET, SegmentEntry, TimestampOffset
from sparklog.storage.files import Files

_COLUMNS: Final = ("offset", "timestamp")
_WINDOW_BYTES: Final = 256 * 1024
"""Indexes lead to within some kilobytes, so little is read at a time."""


def find_first(
    files: Files, directory: str, segments: SegmentList, start: int, timestamp: int
) -> TimestampOffset:
    """Return the first record with a timestamp >= `timestamp` and an offset >= `start`.

    (-1, -1) when there is none. Where Kafka gives up after the first segment that may match
    (UnifiedLog.fetchOffsetByTimestamp), the search goes on to later ones.
    """
    slot = segments.first_with_timestamp(timestamp, start)
    while slot is not None:
        entry = segments.entry(slot)
        position = _position_before(files, directory, entry, timestamp, start)
        found = _first_in(files, directory, entry, position, (timestamp, start))
        if found != UNKNOWN_OFFSET:
            return found
        slot = segments.first_with_timestamp(timestamp, entry.next_offset)
    return UNKNOWN_OFFSET


def find_largest(
    files: Files, directory: str, segments: SegmentList, start: int
) -> TimestampOffset:
    """Return the first record with the largest timestamp of all at or above offset `start`.

    (-1, -1) when no record has a timestamp.
    """
    slot = segments.largest_timestamp(start)
    if slot is None:
        return UNKNOWN_OFFSET
    entry = segments.entry(slot)
    if entry.base_offset < start:
        return _largest_above(files, directory, segments, start)
    position = start_position(files, directory, entry, entry.max_timestamp_offset)
    return _first_in(files, directory, entry, position, (entry.max_timestamp, start))


def _largest_above(
    files: Files, directory: str, segments: SegmentList, start: int
) -> TimestampOffset:
    """The log starts inside a segment, whose largest timestamp may lie below: look into it."""
    first = segments.first_ending_after(start)
    best = UNKNOWN_OFFSET
    if first is not None:
        entry = segments.entry(first)
        position = start_position(files, directory, entry, start)
        for window in windows(files, directory, entry, position):
            found = window.decoded(window.batches, _COLUMNS, start)
            if found.num_rows and pc.max(found.timestamp).as_py() > best.timestamp:
                row = int(np.argmax(found.timestamp.to_numpy()))
                best = TimestampOffset(found.timestamp[row].as_py(), found.offset[row].as_py())
        rest = segments.largest_timestamp(entry.next_offset)
        if rest is not None and int(segments.max_timestamp[rest]) > best.timestamp:
            return find_largest(files, directory, segments, entry.next_offset)
    return best


def _position_before(
    files: Files, directory: str, entry: SegmentEntry, timestamp: int, start: int
) -> int:
    """Return a position at or before the batch of the first record that can match."""
    after = _offset_before(files, directory, entry, timestamp)
    return start_position(files, directory, entry, max(after, start))


def _offset_before(files: Files, directory: str, entry: SegmentEntry, timestamp: int) -> int:
    """Return an offset of the log below which no record is as late as `timestamp`.

    An entry (T, O) of the time index says that T is the largest timestamp up to O. It has no
    checksum, so the batch that ends at O must have T as its maximum; else the index is not used.
    """
    data = index_bytes(files, directory, entry.time_index_path, entry.time_index_bytes)
    if data is None:
        return entry.base_offset
    newest, offset = TimeIndex(data, entry.file_base_offset).lookup(timestamp)
    if newest < 0:
        return entry.base_offset
    if not _is_newest(files, directory, entry, newest, offset):
        distrust(entry.time_index_path, f"no batch ends at offset {offset} with timestamp {newest}")
        return entry.base_offset
    return offset + entry.shift


def _is_newest(
    files: Files, directory: str, entry: SegmentEntry, timestamp: int, offset: int
) -> bool:
    position = start_position(files, directory, entry, offset + entry.shift)
    for window in windows(files, directory, entry, position, _WINDOW_BYTES):
        slot = int(np.searchsorted(window.batches.last_offset, offset))
        if slot < len(window.batches):
            batches = window.batches
            return bool(
                batches.last_offset[slot] == offset and batches.max_timestamp[slot] == timestamp
            )
    return False


def _first_in(
    files: Files,
    directory: str,
    entry: SegmentEntry,
    position: int,
    wanted: tuple[int, int],
) -> TimestampOffset:
    """Return the first record from `position` on at or above the (timestamp, offset) wanted."""
    for window in windows(files, directory, entry, position, _WINDOW_BYTES):
        found = _first_of(window, *wanted)
        if found != UNKNOWN_OFFSET:
            return found
    return UNKNOWN_OFFSET


def _first_of(window: Window, timestamp: int, start: int) -> TimestampOffset:
    batches = window.batches
    may_match = (batches.max_timestamp >= timestamp) & (batches.last_offset >= start - window.shift)
    for slot in np.flatnonzero(may_match).tolist():
        found = window.decoded(batches.slice(slot, slot + 1), _COLUMNS, start)
        late = np.flatnonzero(found.timestamp.to_numpy() >= timestamp)
        if len(late):
            row = int(late[0])
            return TimestampOffset(found.timestamp[row].as_py(), found.offset[row].as_py())
    return UNKNOWN_OFFSET
