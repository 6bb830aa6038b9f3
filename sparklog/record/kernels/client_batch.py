"""The records of a client's batch: all are checked, none is copied."""

from typing import Final

from sparklog.record.kernels.decode import (
    FIELD,
    HEADER_COUNT,
    LEFT_OVER,
    LENGTH,
    UNREAD,
    byte_at,
    get_number,
    get_size,
)
from sparklog.record.kernels.jit import bytes_in, inlined, int64, kernel, types
from sparklog.record.kernels.primitives import Bytes, get_varlong, wrapping_add

NOT_DENSE: Final = -9
"""The offset delta is not the number of records before this one."""
SOUND: Final = 0
NO_RECORD: Final = -1
"""Returned instead of a record's number: every record has a key."""
NO_TIME: Final = -1
"""The time of a record without one (RecordBatch.NO_TIMESTAMP)."""
MIN_TIME: Final = -(2**63)
MAX_TIME: Final = 2**63 - 1


@inlined
def skip_headers(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the position behind the headers at `at`, and the OR of all bytes of their keys.

    The position is negative if a header is damaged. The OR is below 0x80 if all keys are ASCII.
    """
    bits = 0
    if at < 0:
        return at, bits
    count, at = get_number(data, at, end)
    if at < 0:
        return at, bits
    if count < 0 or count > end - at:
        return HEADER_COUNT, bits
    for _ in range(count):
        size, at = get_size(data, at, end)
        if size < 0:
            return FIELD, bits
        for i in range(size):
            bits |= byte_at(data, at + i)
        size, at = get_size(data, at + size, end)
        if at < 0:
            return at, bits
        at += max(size, 0)
    return at, bits


@kernel(types.UniTuple(int64, 7)(bytes_in, int64, int64, int64, int64))
def walk_client_records(
    data: Bytes, at: int, end: int, count: int, base_timestamp: int
) -> tuple[int, int, int, int, int, int, int]:
    """Check the `count` records in [at, end); their offset deltas must be 0, 1, 2 and so on.

    Returns SOUND, or why a record is damaged; the number of that record; the first record without a
    key, or NO_RECORD; how many records have no time; the earliest and the latest time of the
    others; the OR of all bytes of header keys.
    """
    keyless, timeless, earliest, latest, bits = NO_RECORD, 0, MAX_TIME, MIN_TIME, 0
    for record in range(count):
        length, start = get_number(data, at, end)
        if start < 0 or length < 1 or length > end - start:
            return LENGTH, record, keyless, timeless, earliest, latest, bits
        stop = start + length
        offset_delta = 0
        time_delta, at = get_varlong(data, start + 1, stop)
        if at >= 0:
            offset_delta, at = get_number(data, at, stop)
        key_size, at = get_size(data, at, stop)
        if key_size < 0 and keyless == NO_RECORD:
            keyless = record
        value_size, at = get_size(data, at + max(key_size, 0), stop)
        at, key_bits = skip_headers(data, at + max(value_size, 0), stop)
        bits |= key_bits
        if at != stop:
            problem = at if at < 0 else UNREAD
            return problem, record, keyless, timeless, earliest, latest, bits
        if offset_delta != record:
            return NOT_DENSE, record, keyless, timeless, earliest, latest, bits
        timestamp = wrapping_add(base_timestamp, time_delta)
        if timestamp == NO_TIME:
            timeless += 1
        else:
            earliest = min(earliest, timestamp)
            latest = max(latest, timestamp)
    problem = SOUND if at == end else LEFT_OVER
    return problem, count, keyless, timeless, earliest, latest, bits
