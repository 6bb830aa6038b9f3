"""The walk over batch headers: the fields of each become a column of a matrix."""

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
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE,
)
from sparklog.record.kernels.jit import (
    bytes_in,
    inlined,
    int64,
    int64_matrix_out,
    kernel,
    types,
)
from sparklog.record.kernels.primitives import (
    Bytes,
    get_int16,
    get_int32,
    get_int64,
    wrapping_add,
)
from sparklog.record.kernels.primitives import int64 as as_int64

DONE: Final = 0
"""The walk has reached the end."""
LIMIT: Final = 1
"""One more batch would exceed the limit."""
FULL: Final = 2
"""The matrix has no column left: call again with another one."""
SHORT_HEADER: Final = 3
"""Fewer bytes are left than are needed to know size and magic."""
SHORT_BODY: Final = 4
"""The batch goes beyond the end."""
BAD_SIZE: Final = 5
"""The size is below the smallest of its format."""
BAD_MAGIC: Final = 6
"""The magic is not 0, 1 or 2."""


@inlined
def least_length(magic: int) -> int:
    """Return the smallest value of the length field (magic 2) or size field (magic 0 and 1)."""
    if magic == layout.MAGIC_V2:
        return layout.BATCH_MIN_LENGTH
    if magic == layout.MAGIC_V1:
        return layout.LEGACY_MIN_LENGTH_V1
    return layout.LEGACY_MIN_LENGTH_V0


@inlined
def check(data: Bytes, position: int, end: int) -> int:
    """Return DONE if a whole entry is at `position`, else the reason (SHORT_… or BAD_…)."""
    if end - position < layout.HEADER_PREFIX:
        return SHORT_HEADER
    length = get_int32(data, position + layout.LENGTH)
    magic = as_int64(data[position + layout.MAGIC])
    if length < layout.LEGACY_MIN_LENGTH_V0:
        return BAD_SIZE
    if magic > layout.MAGIC_V2:
        return BAD_MAGIC
    if length < least_length(magic):
        return BAD_SIZE
    if length > end - position - layout.LOG_OVERHEAD:
        return SHORT_BODY
    return DONE


@inlined
def read_batch(data: Bytes, at: int, out: NDArray[np.int64], i: int) -> None:
    """Fill column `i` with the fields that only a batch of magic 2 has."""
    out[LAST_OFFSET, i] = wrapping_add(
        out[BASE_OFFSET, i], get_int32(data, at + layout.LAST_OFFSET_DELTA)
    )
    out[RECORD_COUNT, i] = get_int32(data, at + layout.RECORD_COUNT)
    out[BASE_TIMESTAMP, i] = get_int64(data, at + layout.BASE_TIMESTAMP)
    out[MAX_TIMESTAMP, i] = get_int64(data, at + layout.MAX_TIMESTAMP)
    out[ATTRIBUTES, i] = get_int16(data, at + layout.ATTRIBUTES)
    out[LEADER_EPOCH, i] = get_int32(data, at + layout.LEADER_EPOCH)
    out[PRODUCER_ID, i] = get_int64(data, at + layout.PRODUCER_ID)
    out[PRODUCER_EPOCH, i] = get_int16(data, at + layout.PRODUCER_EPOCH)
    out[BASE_SEQUENCE, i] = get_int32(data, at + layout.BASE_SEQUENCE)


@inlined
def read_message(data: Bytes, at: int, out: NDArray[np.int64], i: int) -> None:
    """Fill column `i` from a message of magic 0 or 1; a field that it does not have is -1."""
    attributes = as_int64(data[at + layout.LEGACY_ATTRIBUTES])
    timestamp = as_int64(-1)
    if out[MAGIC, i] == layout.MAGIC_V1:
        timestamp = get_int64(data, at + layout.LEGACY_TIMESTAMP)
    out[LAST_OFFSET, i] = out[BASE_OFFSET, i]
    out[RECORD_COUNT, i] = 1 if attributes & layout.CODEC_MASK == 0 else -1
    out[BASE_TIMESTAMP, i] = timestamp
    out[MAX_TIMESTAMP, i] = timestamp
    out[ATTRIBUTES, i] = attributes
    out[LEADER_EPOCH, i] = layout.NO_LEADER_EPOCH
    out[PRODUCER_ID, i] = layout.NO_PRODUCER_ID
    out[PRODUCER_EPOCH, i] = layout.NO_PRODUCER_EPOCH
    out[BASE_SEQUENCE, i] = layout.NO_SEQUENCE


@kernel(types.UniTuple(int64, 3)(bytes_in, int64, int64, int64, int64, int64_matrix_out))
def walk_headers(
    data: Bytes,
    position: int,
    end: int,
    stop: int,
    forced: int,
    out: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fill a column of `out`, (13, n), for each whole batch from `position` on.

    Takes no batch that ends behind `stop`, except the first one if `forced` is 1. Returns (status,
    number of batches taken, position behind them).
    """
    taken = 0
    while position < end:
        status = check(data, position, end)
        if status != DONE:
            return status, taken, position
        if taken == out.shape[1]:
            return FULL, taken, position
        out[POSITION, taken] = position
        out[SIZE, taken] = layout.LOG_OVERHEAD + get_int32(data, position + layout.LENGTH)
        out[BASE_OFFSET, taken] = get_int64(data, position)
        out[MAGIC, taken] = data[position + layout.MAGIC]
        if out[MAGIC, taken] == layout.MAGIC_V2:
            read_batch(data, position, out, taken)
        else:
            read_message(data, position, out, taken)
        after = position + out[SIZE, taken]
        if after > stop and forced == 0:
            return LIMIT, taken, position
        forced = 0
        position = after
        taken += 1
    return DONE, taken, position
