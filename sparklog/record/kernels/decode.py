"""Records -> columns, in one pass. Each record is checked to its end before any of it is copied.

So a damaged record never becomes part of a row. No sink overflows, because keys and values are
disjoint parts of the records, and each sink is as large as all records together.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sparklog.record.kernels.jit import (
    bytes_in,
    bytes_out,
    inlined,
    int32s_out,
    int64,
    int64s_in,
    int64s_out,
    kernel,
    named_tuple,
    types,
)
from sparklog.record.kernels.primitives import (
    Bytes,
    copy_bytes,
    get_varint,
    get_varlong,
    wrapping_add,
)
from sparklog.record.kernels.primitives import int64 as as_int64

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

as_uint64 = cast("Callable[[Any], int]", np.uint64)

# --- what a kernel returns instead of a number of rows -------------------------------------------
# TRUNCATED (-1) and OVERLONG (-2) come from primitives: a number of the record is damaged.
FIELD: Final = -3
"""A key or value is longer than the rest of its record, or has a size below -1."""
HEADER_COUNT: Final = -4
"""The header count is negative, or larger than the number of bytes left in the record."""
LENGTH: Final = -5
"""The record is longer than the rest of its batch, or empty, or its length is damaged."""
UNREAD: Final = -6
"""The fields end before the record does."""
OFFSET: Final = -7
"""The offset is outside the batch."""
LEFT_OVER: Final = -8
"""The batch goes on after its last record."""

# --- which columns to write ----------------------------------------------------------------------
KEY: Final = 1
VALUE: Final = 2
OFFSETS: Final = 4
TIMESTAMP: Final = 8
TIMESTAMP_TYPE: Final = 16
HEADERS: Final = 32
SIZES: Final = 64

# --- what else a kernel reports, in `counters` ----------------------------------------------------
BATCH: Final = 0
"""The batch or message that was read last; after an error the damaged one."""
RECORD: Final = 1
"""After an error the number of the damaged record in its batch."""
HEADER_TOTAL: Final = 2
"""How many headers the rows have."""
HEADER_BYTES: Final = 3
"""How many bytes these headers take: enough for their keys, and for their values."""
NUM_COUNTERS: Final = 4


class Batches(NamedTuple):
    """Where the records of each v2 batch are, and the bases of their deltas."""

    is_decompressed: Int64s
    """0: positions are in the log; 1: in the decompressed records."""
    position: Int64s
    """First byte of the first record."""
    end: Int64s
    record_count: Int64s
    base_offset: Int64s
    max_offset_delta: Int64s
    base_timestamp: Int64s
    append_timestamp: Int64s
    timestamp_type: Int64s
    """1: every record has `append_timestamp`."""


class BinarySink(NamedTuple):
    """The three buffers of an Arrow binary array; `ends[0]` is 0 and `valid` begins all ones."""

    ends: Int32s
    data: Bytes
    valid: Bytes


class Sinks(NamedTuple):
    """Where rows go. A column that is not wanted has arrays of length 0."""

    offset: Int64s
    timestamp: Int64s
    timestamp_type: Int32s
    headers_at: Int64s
    """The position of each row's header count; complemented (~) if in the decompressed records."""
    key_size: Int32s
    """Sizes of keys and values in bytes, -1 for null; for callers that do not need the bytes."""
    value_size: Int32s
    key: BinarySink
    value: BinarySink


class HeaderSinks(NamedTuple):
    """Where headers go: the buffers of a list<struct<key, value>>; `valid` begins as all ones."""

    ends: Int32s
    valid: Bytes
    key: BinarySink
    value: BinarySink


class Scalars(NamedTuple):
    """The fixed-width fields of a row."""

    offset: int
    timestamp: int
    timestamp_type: int


class Fields(NamedTuple):
    """Where the parts of a record are; sizes are -1 for null."""

    key: int
    key_size: int
    value: int
    value_size: int
    headers: int
    header_count: int


window_type = types.UniTuple(int64, 2)
binary_type = named_tuple(BinarySink, int32s_out, bytes_out, bytes_out)
sinks_type = named_tuple(
    Sinks,
    int64s_out,
    int64s_out,
    int32s_out,
    int64s_out,
    int32s_out,
    int32s_out,
    binary_type,
    binary_type,
)
header_sinks_type = named_tuple(HeaderSinks, int32s_out, bytes_out, binary_type, binary_type)
# Numba has another type for a NamedTuple whose members have one type.
batches_type = types.NamedUniTuple(int64s_in, len(Batches._fields), Batches)


@inlined
def byte_at(data: Bytes, at: int) -> int:
    """Return the byte at a position that is not negative; a signed index would cost a test."""
    return as_int64(data[as_uint64(at)])


@inlined
def get_number(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the same as `get_varint`, faster for the one or two bytes that most numbers take."""
    if at < end:
        low = byte_at(data, at)
        if low < 0x80:
            return (low >> 1) ^ -(low & 1), at + 1
        if at + 1 < end:
            high = byte_at(data, at + 1)
            if high < 0x80:
                code = high << 7 | (low & 0x7F)
                return (code >> 1) ^ -(code & 1), at + 2
    return get_varint(data, at, end)


@inlined
def clear_bit(bits: Bytes, row: int) -> None:
    """Mark a row as null."""
    bits[row >> 3] = bits[row >> 3] & (0xFF ^ (1 << (row & 7)))


@inlined
def put_binary(sink: BinarySink, row: int, data: Bytes, at: int, size: int) -> None:
    """Append the bytes of `row`; a negative size means null."""
    used = sink.ends[row]
    if size < 0:
        clear_bit(sink.valid, row)
        sink.ends[row + 1] = used
    else:
        copy_bytes(sink.data, used, data, at, size)
        sink.ends[row + 1] = used + size


@inlined
def put_row(
    sinks: Sinks, wanted: int, row: int, scalars: Scalars, data: Bytes, fields: Fields
) -> None:
    """Write the wanted columns of a row, except headers."""
    if wanted & OFFSETS:
        sinks.offset[row] = scalars.offset
    if wanted & TIMESTAMP:
        sinks.timestamp[row] = scalars.timestamp
    if wanted & TIMESTAMP_TYPE:
        sinks.timestamp_type[row] = scalars.timestamp_type
    if wanted & SIZES:
        sinks.key_size[row] = fields.key_size
        sinks.value_size[row] = fields.value_size
    if wanted & KEY:
        put_binary(sinks.key, row, data, fields.key, fields.key_size)
    if wanted & VALUE:
        put_binary(sinks.value, row, data, fields.value, fields.value_size)


@inlined
def get_size(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the size of a key or value, -1 for null, and the position of its first byte.

    The position is negative, and the size 0, if `at` is negative or the bytes do not fit before
    `end`.
    """
    if at < 0:
        return 0, at
    size, at = get_number(data, at, end)
    if at < 0:
        return 0, at
    if size < -1 or size > end - at:
        return 0, FIELD
    return size, at


@inlined
def skip_headers(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number of headers at `at`, and the position behind them; negative if damaged."""
    if at < 0:
        return 0, at
    count, at = get_number(data, at, end)
    if at < 0:
        return 0, at
    if count < 0 or count > end - at:
        return 0, HEADER_COUNT
    for _ in range(count):
        size, at = get_size(data, at, end)
        if size < 0:
            return 0, FIELD
        size, at = get_size(data, at + size, end)
        if at < 0:
            return 0, at
        at += max(size, 0)
    return count, at


@inlined
def walk_record(data: Bytes, at: int, end: int) -> tuple[int, int, Fields, int]:
    """Return the time and offset deltas of the record in [at, end), its parts, the end of these.

    If the record is damaged, the end is negative and the rest has no meaning.
    """
    offset_delta = 0
    time_delta, at = get_varlong(data, at + 1, end)
    if at >= 0:
        offset_delta, at = get_number(data, at, end)
    key_size, key = get_size(data, at, end)
    value_size, value = get_size(data, key + max(key_size, 0), end)
    headers = value + max(value_size, 0)
    header_count, at = skip_headers(data, headers, end)
    fields = Fields(key, key_size, value, value_size, headers, header_count)
    return time_delta, offset_delta, fields, at


@inlined
def next_record(data: Bytes, at: int, end: int, max_delta: int) -> tuple[int, int, int, Fields]:
    """Return the position behind the record at `at`, its time and offset deltas, and its parts.

    If the record is damaged, the position is negative: the reason.
    """
    length, start = get_number(data, at, end)
    if start < 0 or length < 1 or length > end - start:
        return LENGTH, 0, 0, Fields(0, 0, 0, 0, 0, 0)
    stop = start + length
    time_delta, offset_delta, fields, after = walk_record(data, start, stop)
    if after != stop:
        stop = after if after < 0 else UNREAD
    elif offset_delta < 0 or offset_delta > max_delta:
        stop = OFFSET
    return stop, time_delta, offset_delta, fields


@kernel(int64(bytes_in, bytes_in, batches_type, window_type, int64, sinks_type, int64s_out))
def decode_batches(
    log: Bytes,
    decompressed: Bytes,
    batches: Batches,
    window: tuple[int, int],
    wanted: int,
    sinks: Sinks,
    counters: Int64s,
) -> int:
    """Write a row for each record of v2 batches whose offset is in [window[0], window[1]].

    Returns the number of rows, or a negative reason if a record is damaged. `counters` begins as
    zeros.
    """
    row = 0
    for batch in range(len(batches.position)):
        counters[BATCH] = batch
        is_decompressed = batches.is_decompressed[batch]
        data = decompressed if is_decompressed else log
        at = batches.position[batch]
        end = batches.end[batch]
        base_offset = batches.base_offset[batch]
        max_offset_delta = batches.max_offset_delta[batch]
        base_timestamp = batches.base_timestamp[batch]
        timestamp_type = batches.timestamp_type[batch]
        for record in range(batches.record_count[batch]):
            length, at = get_number(data, at, end)
            if at < 0 or length < 1 or length > end - at:
                counters[RECORD] = record
                return LENGTH
            stop = at + length
            time_delta, offset_delta, fields, at = walk_record(data, at, stop)
            if at != stop:
                counters[RECORD] = record
                return at if at < 0 else UNREAD
            if offset_delta < 0 or offset_delta > max_offset_delta:
                counters[RECORD] = record
                return OFFSET
            offset = wrapping_add(base_offset, offset_delta)
            if window[0] <= offset <= window[1]:
                timestamp = wrapping_add(base_timestamp, time_delta)
                if timestamp_type:
                    timestamp = batches.append_timestamp[batch]
                scalars = Scalars(offset, timestamp, timestamp_type)
                put_row(sinks, wanted, row, scalars, data, fields)
                if wanted & HEADERS:
                    sinks.headers_at[row] = ~fields.headers if is_decompressed else fields.headers
                    counters[HEADER_TOTAL] += fields.header_count
                    counters[HEADER_BYTES] += stop - fields.headers
                row += 1
        if at != end:
            return LEFT_OVER
    return row


@kernel(types.void(bytes_in, bytes_in, int64s_in, header_sinks_type))
def gather_headers(log: Bytes, decompressed: Bytes, headers_at: Int64s, sinks: HeaderSinks) -> None:
    """Write the headers of each row; `headers_at` is the array of `decode_batches`' sinks.

    The positions must be those of records that `decode_batches` has checked.
    """
    header = 0
    for row in range(len(headers_at)):
        at = headers_at[row]
        data = log
        if at < 0:
            data, at = decompressed, ~at
        count, at = get_number(data, at, len(data))
        if count == 0:
            clear_bit(sinks.valid, row)
        for _ in range(count):
            size, at = get_number(data, at, len(data))
            put_binary(sinks.key, header, data, at, size)
            size, at = get_number(data, at + size, len(data))
            put_binary(sinks.value, header, data, at, size)
            at += max(size, 0)
            header += 1
        sinks.ends[row + 1] = header
