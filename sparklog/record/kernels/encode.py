"""Write records into batches (magic 2); one pass distributes the rows over the streams.

First `measure` gives an upper bound for each stream, so that one array has a region for each. Then
`encode_rows` reads the rows once, in order, and appends each to the open batch of its stream. When
sizes are final, `put_headers` writes the batch headers. `layout` shows the bytes.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.kernels.columns import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE,
    HeaderColumn,
    Rows,
    field_size,
    header_span,
    length,
    put_field,
    rows_type,
)
from sparklog.record.kernels.jit import (
    bytes_out,
    inlined,
    int64,
    int64_matrix_out,
    kernel,
    types,
)
from sparklog.record.kernels.primitives import (
    Bytes,
    put_int16,
    put_int32,
    put_int64,
    put_varint,
    varint_size,
    wrapping_sub,
)

OK: Final = 0
BAD_STREAM: Final = 1
"""A stream number outside [0, number of streams)."""
BAD_TIMESTAMP: Final = 2
"""A timestamp below -1."""
NULL_HEADER_KEY: Final = 3
TOO_LARGE: Final = 4
"""The batch of this record alone would be larger than the limit."""

# Columns of the totals that `measure` fills, a row per stream.
TOTAL_ROWS, TOTAL_BYTES = range(2)
NUM_TOTALS: Final = 2

# Columns of the state of `encode_rows`, a row per stream: the positions of the next byte and of the
# next batch entry, then the open batch.
NEXT_BYTE, NEXT_BATCH, START, COUNT, BASE, MAXIMUM, FIRST_ROW, MINIMUM = range(8)
NUM_STATE: Final = 8

# Columns of the batch entries that `encode_rows` fills.
(
    ENTRY_POSITION,
    ENTRY_SIZE,
    ENTRY_COUNT,
    ENTRY_BASE,
    ENTRY_MAXIMUM,
    ENTRY_FIRST_ROW,
    ENTRY_MINIMUM,
) = range(7)
NUM_ENTRY: Final = 7

OFFSET_DELTA_MAX: Final = 2**31 - 1
"""The offset delta of a record is an int32."""

_DELTAS_MIN: Final = 2
_DELTAS_MAX: Final = layout.MAX_VARLONG_SIZE + layout.MAX_VARINT_SIZE


@inlined
def headers_size(headers: HeaderColumn, row: int) -> int:
    """Return the bytes of the header count and the headers; -1 if a header key is null."""
    first, end = header_span(headers, row)
    size = varint_size(end - first)
    for header in range(first, end):
        key = length(headers.keys, header)
        if key < 0:
            return -1
        size += field_size(key) + field_size(length(headers.values, header))
    return size


@inlined
def put_record_headers(out: Bytes, at: int, headers: HeaderColumn, row: int) -> int:
    """Write header count and headers; return the position behind them."""
    first, end = header_span(headers, row)
    at = put_varint(out, at, end - first)
    for header in range(first, end):
        at = put_field(out, at, headers.keys, header, length(headers.keys, header))
        at = put_field(out, at, headers.values, header, length(headers.values, header))
    return at


@inlined
def fixed_size(rows: Rows, row: int) -> int:
    """Return a record's bytes without its length and its two deltas; -1 for a null header key."""
    headers = headers_size(rows.headers, row)
    if headers < 0:
        return -1
    return 1 + field_size(length(rows.key, row)) + field_size(length(rows.value, row)) + headers


@kernel(types.UniTuple(int64, 3)(rows_type, int64, int64_matrix_out))
def measure(rows: Rows, size_max: int, totals: NDArray[np.int64]) -> tuple[int, int, int]:
    """Add up, per stream, the rows and the most bytes that their records can take.

    Returns (OK, 0, 0), or for the first row that cannot be written (the reason, its number, the
    size of a batch with this record alone). `size_max` limits that size.
    """
    for row in range(len(rows.stream)):
        stream = rows.stream[row]
        if stream < 0 or stream >= len(totals):
            return BAD_STREAM, row, 0
        if rows.timestamp[row] < -1:
            return BAD_TIMESTAMP, row, 0
        fixed = fixed_size(rows, row)
        if fixed < 0:
            return NULL_HEADER_KEY, row, 0
        alone = fixed + _DELTAS_MIN
        alone += layout.RECORDS + varint_size(alone)
        if alone > size_max:
            return TOO_LARGE, row, alone
        totals[stream, TOTAL_ROWS] += 1
        totals[stream, TOTAL_BYTES] += layout.MAX_VARINT_SIZE + fixed + _DELTAS_MAX
    return OK, 0, 0


@inlined
def close_batch(state: NDArray[np.int64], stream: int, entries: NDArray[np.int64]) -> None:
    """Write the open batch of the stream to `entries`."""
    entry = state[stream, NEXT_BATCH]
    entries[entry, ENTRY_POSITION] = state[stream, START]
    entries[entry, ENTRY_SIZE] = state[stream, NEXT_BYTE] - state[stream, START]
    entries[entry, ENTRY_COUNT] = state[stream, COUNT]
    entries[entry, ENTRY_BASE] = state[stream, BASE]
    entries[entry, ENTRY_MAXIMUM] = state[stream, MAXIMUM]
    entries[entry, ENTRY_FIRST_ROW] = state[stream, FIRST_ROW]
    entries[entry, ENTRY_MINIMUM] = state[stream, MINIMUM]
    state[stream, NEXT_BATCH] = entry + 1
    state[stream, COUNT] = 0


@inlined
def open_batch(state: NDArray[np.int64], stream: int, row: int, timestamp: int) -> None:
    """Begin a batch with the row as its first record."""
    state[stream, START] = state[stream, NEXT_BYTE]
    state[stream, NEXT_BYTE] += layout.RECORDS
    state[stream, BASE] = timestamp
    state[stream, MAXIMUM] = timestamp
    state[stream, MINIMUM] = timestamp
    state[stream, FIRST_ROW] = row


@inlined
def offset_above(rows: Rows, first_row: int, row: int, count: int) -> int:
    """Return the row's offset minus that of its batch's first row; `count` rows are before it."""
    if len(rows.offset) == 0:
        return count
    return wrapping_sub(rows.offset[row], rows.offset[first_row])


@kernel(types.void(rows_type, int64, int64_matrix_out, int64_matrix_out, bytes_out))
def encode_rows(
    rows: Rows,
    batch_bytes: int,
    state: NDArray[np.int64],
    entries: NDArray[np.int64],
    out: Bytes,
) -> None:
    """Append every row to the open batch of its stream, with room for the batch headers.

    A batch ends before the record that would make it larger than `batch_bytes` (but has at least
    one), and before a record whose offset is more than OFFSET_DELTA_MAX above its first. The caller
    has measured the rows, and has set NEXT_BYTE and NEXT_BATCH so that no region of `out` and
    `entries` can overflow.
    """
    for row in range(len(rows.stream)):
        stream = rows.stream[row]
        timestamp = rows.timestamp[row]
        key = length(rows.key, row)
        value = length(rows.value, row)
        fixed = 1 + field_size(key) + field_size(value) + headers_size(rows.headers, row)
        count = state[stream, COUNT]
        if count > 0:
            above = offset_above(rows, state[stream, FIRST_ROW], row, count)
            delta = wrapping_sub(timestamp, state[stream, BASE])
            size = fixed + varint_size(delta) + varint_size(above)
            after = state[stream, NEXT_BYTE] + varint_size(size) + size
            if after - state[stream, START] > batch_bytes or above > OFFSET_DELTA_MAX:
                close_batch(state, stream, entries)
                count = 0
        if count == 0:
            open_batch(state, stream, row, timestamp)
            delta = 0
            above = 0
            size = fixed + _DELTAS_MIN
        at = put_varint(out, state[stream, NEXT_BYTE], size)
        out[at] = 0
        at = put_varint(out, at + 1, delta)
        at = put_varint(out, at, above)
        at = put_field(out, at, rows.key, row, key)
        at = put_field(out, at, rows.value, row, value)
        state[stream, NEXT_BYTE] = put_record_headers(out, at, rows.headers, row)
        state[stream, COUNT] = count + 1
        state[stream, MAXIMUM] = max(state[stream, MAXIMUM], timestamp)
        state[stream, MINIMUM] = min(state[stream, MINIMUM], timestamp)
    for stream in range(len(state)):
        if state[stream, COUNT] > 0:
            close_batch(state, stream, entries)


@kernel(types.void(int64_matrix_out, bytes_out))
def put_headers(batches: NDArray[np.int64], out: Bytes) -> None:
    """Write the header of every batch of a BatchTable's (13, n) matrix, except the CRC."""
    for i in range(batches.shape[1]):
        at = batches[POSITION, i]
        put_int64(out, at + layout.BASE_OFFSET, batches[BASE_OFFSET, i])
        put_int32(out, at + layout.LENGTH, batches[SIZE, i] - layout.LOG_OVERHEAD)
        put_int32(out, at + layout.LEADER_EPOCH, batches[LEADER_EPOCH, i])
        out[at + layout.MAGIC] = layout.MAGIC_V2
        put_int16(out, at + layout.ATTRIBUTES, batches[ATTRIBUTES, i])
        last_delta = batches[LAST_OFFSET, i] - batches[BASE_OFFSET, i]
        put_int32(out, at + layout.LAST_OFFSET_DELTA, last_delta)
        put_int64(out, at + layout.BASE_TIMESTAMP, batches[BASE_TIMESTAMP, i])
        put_int64(out, at + layout.MAX_TIMESTAMP, batches[MAX_TIMESTAMP, i])
        put_int64(out, at + layout.PRODUCER_ID, batches[PRODUCER_ID, i])
        put_int16(out, at + layout.PRODUCER_EPOCH, batches[PRODUCER_EPOCH, i])
        put_int32(out, at + layout.BASE_SEQUENCE, batches[BASE_SEQUENCE, i])
        put_int32(out, at + layout.RECORD_COUNT, batches[RECORD_COUNT, i])
