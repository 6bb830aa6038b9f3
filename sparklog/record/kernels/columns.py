"""Arrow columns as a kernel sees them: NamedTuples of read-only views, and steps over them.

    BinaryColumn   row i is data[offsets[i]:offsets[i + 1]], null if its validity bit is 0
    HeaderColumn   row i has the headers offsets[i] .. offsets[i + 1] - 1 of `keys` and `values`
    Rows           the records to write; `offset` has length 0 if they have no offsets of their own

Validity is Arrow's bitmap, lowest bit first; row 0 has the bit `bit_offset`. Its length is 0 if
there are no nulls. `offsets` of a HeaderColumn has length 0 if no row has headers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.record.kernels.jit import (
    bytes_in,
    inlined,
    int32s_in,
    int64,
    int64s_in,
    named_tuple,
)
from sparklog.record.kernels.primitives import Bytes, put_varint, varint_size
from sparklog.record.kernels.primitives import copy_bytes as copy
from sparklog.record.kernels.primitives import int64 as as_int64

# The columns of a BatchTable are the rows of its matrix.
(
    POSITION,
    SIZE,
    BASE_OFFSET,
    LAST_OFFSET,
    RECORD_COUNT,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    ATTRIBUTES,
    MAGIC,
    LEADER_EPOCH,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
) = range(13)


class BinaryColumn(NamedTuple):
    """A column of keys, values, header keys or header values."""

    offsets: NDArray[np.int32]
    data: Bytes
    validity: Bytes
    bit_offset: int


class HeaderColumn(NamedTuple):
    """The headers of the rows; a null list counts as an empty one."""

    offsets: NDArray[np.int32]
    validity: Bytes
    bit_offset: int
    keys: BinaryColumn
    values: BinaryColumn


class Rows(NamedTuple):
    """Records to write, and the stream of each."""

    stream: NDArray[np.int32]
    timestamp: NDArray[np.int64]
    key: BinaryColumn
    value: BinaryColumn
    headers: HeaderColumn
    offset: NDArray[np.int64]


binary_column = named_tuple(BinaryColumn, int32s_in, bytes_in, bytes_in, int64)
header_column = named_tuple(HeaderColumn, int32s_in, bytes_in, int64, binary_column, binary_column)
rows_type = named_tuple(
    Rows, int32s_in, int64s_in, binary_column, binary_column, header_column, int64s_in
)


@inlined
def is_null(validity: Bytes, bit: int) -> bool:
    """Return whether the bitmap, if there is one, says that the item is null."""
    return len(validity) > 0 and (validity[bit >> 3] >> (bit & 7)) & 1 == 0


@inlined
def length(column: BinaryColumn, row: int) -> int:
    """Return how many bytes the row has; -1 for null, as in a record."""
    if is_null(column.validity, column.bit_offset + row):
        return -1
    return as_int64(column.offsets[row + 1]) - as_int64(column.offsets[row])


@inlined
def header_span(headers: HeaderColumn, row: int) -> tuple[int, int]:
    """Return the first and the end index of the row's headers."""
    if len(headers.offsets) == 0 or is_null(headers.validity, headers.bit_offset + row):
        return 0, 0
    return as_int64(headers.offsets[row]), as_int64(headers.offsets[row + 1])


@inlined
def field_size(size: int) -> int:
    """Return how many bytes a field takes: its length (-1 for null), and the bytes it counts."""
    return varint_size(size) + max(size, 0)


@inlined
def put_field(out: Bytes, at: int, column: BinaryColumn, row: int, size: int) -> int:
    """Write length and bytes of a field; return the position behind it."""
    at = put_varint(out, at, size)
    if size > 0:
        copy(out, at, column.data, column.offsets[row], size)
        at += size
    return at
