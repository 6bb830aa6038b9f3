"""The two steps of a fast lookup in one read of a log: to the batch, and to its record.

Numbers are plain tuples: passing a NamedTuple takes longer than walking a batch.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.kernels.decode import LEFT_OVER, next_record
from sparklog.record.kernels.jit import bytes_in, inlined, int64, int64_matrix_out, kernel, types
from sparklog.record.kernels.primitives import Bytes, get_int32, get_int64, wrapping_add
from sparklog.record.kernels.primitives import int64 as as_int64
from sparklog.record.kernels.scan import DONE, check

NONE: Final = 0
FOUND: Final = 1

_UNSIGNED: Final = 0xFFFF_FFFF

Two = tuple[int, int]
Three = tuple[int, int, int]
Six = tuple[int, int, int, int, int, int]

two, three, six = (types.UniTuple(int64, count) for count in (2, 3, 6))


@inlined
def fits(first: int, last: int, newest: int, named: Two) -> bool:
    """Return whether a batch is that of the time index entry `named`, or may come before it."""
    if last < named[1]:
        return newest < named[0]
    return first <= named[1] and newest == named[0]


@kernel(int64(bytes_in, three, two, two, int64_matrix_out))
def walk_to(data: Bytes, bounds: Three, named: Two, wanted: Two, passed: NDArray[np.int64]) -> int:
    """Walk batches of magic 2 to the first that may hold a wanted record.

    `wanted` is (timestamp, offset): the record must be at or above both. `bounds` are the last
    offset of the first batch (-1 if it is not known), the smallest allowed offset, and the end of
    the segment's offsets. With -1 the first batch must begin at the smallest allowed offset. Each
    batch begins where the one before it ends. `named` is an entry (timestamp, offset) of the time
    index that must fit; its offset is -1 for none.

    Writes a row (start, end, checksum) for each batch up to the one found, and returns their
    number. NONE if none is found within `data` and the rows, or if anything is wrong.
    """
    at, lowest = as_int64(0), bounds[1]
    is_named = named[1] >= 0
    for row in range(len(passed)):
        if check(data, at, len(data)) != DONE or data[at + layout.MAGIC] != layout.MAGIC_V2:
            return NONE
        first = get_int64(data, at)
        last = wrapping_add(first, get_int32(data, at + layout.LAST_OFFSET_DELTA))
        newest = get_int64(data, at + layout.MAX_TIMESTAMP)
        is_due = last == bounds[0] if row == 0 and bounds[0] >= 0 else first == lowest
        if not is_due or first < lowest or last < first or last >= bounds[2]:
            return NONE
        if is_named and not fits(first, last, newest, named):
            return NONE
        is_named = is_named and last < named[1]
        end = at + layout.LOG_OVERHEAD + get_int32(data, at + layout.LENGTH)
        passed[row, 0] = at
        passed[row, 1] = end
        passed[row, 2] = get_int32(data, at + layout.CRC) & _UNSIGNED
        if newest >= wanted[0] and last >= wanted[1]:
            return row + 1
        at, lowest = end, last + 1
    return NONE


@kernel(three(bytes_in, int64, int64, six, two))
def first_record(data: Bytes, at: int, end: int, fields: Six, wanted: Two) -> Three:
    """Return (FOUND, timestamp, offset) of a batch's first record at or above `wanted`, in both.

    The records are in [at, end). `fields` are the batch's record count, base offset, last offset
    delta, base timestamp, max timestamp, and 1 if every record has the latter (LogAppendTime). A
    miss is (NONE, -1, -1). Every record of the batch is checked: if one is damaged, the first
    number is negative, the reason.
    """
    record_count, base_offset, last_delta, base_timestamp, append_timestamp, is_append = fields
    status = as_int64(NONE)
    found_timestamp = found_offset = as_int64(-1)
    for _ in range(record_count):
        at, time_delta, offset_delta, _ = next_record(data, at, end, last_delta)
        if at < 0:
            return at, found_timestamp, found_offset
        offset = wrapping_add(base_offset, offset_delta)
        timestamp = append_timestamp if is_append else wrapping_add(base_timestamp, time_delta)
        if status == NONE and timestamp >= wanted[0] and offset >= wanted[1]:
            status, found_timestamp, found_offset = as_int64(FOUND), timestamp, offset
    if at != end:
        status = as_int64(LEFT_OVER)
    return status, found_timestamp, found_offset
