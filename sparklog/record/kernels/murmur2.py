"""Kafka's murmur2 of keys (Utils.murmur2), and Kafka's default partitioners, which use it.

    h = seed ^ length
    for each little-endian 4-byte word k:  k *= m; k ^= k >>> 24; k *= m; h *= m; h ^= k
    for the 1 to 3 bytes that are left:    h ^= them, little-endian; h *= m
    h ^= h >>> 13; h *= m; h ^= h >>> 15

All in unsigned 32-bit arithmetic; seed 0x9747b28c, m 0x5bd1e995.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.kernels.columns import BinaryColumn, binary_column, field_size, length
from sparklog.record.kernels.jit import (
    bytes_in,
    inlined,
    int32s_in,
    int32s_out,
    int64,
    int64s_out,
    kernel,
    types,
)
from sparklog.record.kernels.primitives import Bytes, mul32, varint_size
from sparklog.record.kernels.primitives import int64 as as_int64

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
POSITIVE: Final = 0x7FFF_FFFF
"""A mask that clears the hash's sign bit (Utils.toPositive)."""

# The state of `assign_sticky`: the partition, the bytes that went to it, how many choices are used.
STICKY_PARTITION, STICKY_BYTES, DRAWN = range(3)

RECORD_FIXED: Final = 4
"""Attributes, offset delta, timestamp delta, header count: mostly one byte each."""
RECORD_OVERHEAD_MAX: Final = RECORD_FIXED + 3 * layout.MAX_VARINT_SIZE
"""The most bytes that `assign_sticky` counts for a record besides its key and value."""


@inlined
def hash_bytes(data: Bytes, start: int, end: int) -> int:
    """Return the murmur2 of data[start:end] as an unsigned 32-bit number."""
    hashed = as_int64(SEED) ^ (end - start)
    at = start
    while at + 4 <= end:
        word = (
            as_int64(data[at])
            | as_int64(data[at + 1]) << 8
            | as_int64(data[at + 2]) << 16
            | as_int64(data[at + 3]) << 24
        )
        word = mul32(word, M)
        word = mul32(word ^ (word >> 24), M)
        hashed = mul32(hashed, M) ^ word
        at += 4
    if at < end:
        if at + 2 < end:
            hashed ^= as_int64(data[at + 2]) << 16
        if at + 1 < end:
            hashed ^= as_int64(data[at + 1]) << 8
        hashed = mul32(hashed ^ as_int64(data[at]), M)
    hashed = mul32(hashed ^ (hashed >> 13), M)
    return hashed ^ (hashed >> 15)


@kernel(types.void(int32s_in, bytes_in, int32s_out))
def murmur2_rows(offsets: NDArray[np.int32], data: Bytes, out: NDArray[np.int32]) -> None:
    """Fill `out` with the signed murmur2 of each data[offsets[i]:offsets[i + 1]]."""
    for row in range(len(out)):
        hashed = hash_bytes(data, as_int64(offsets[row]), as_int64(offsets[row + 1]))
        out[row] = (hashed ^ 0x8000_0000) - 0x8000_0000


@kernel(types.void(binary_column, binary_column, int64, int32s_in, int64s_out, int32s_out))
def assign_sticky(
    keys: BinaryColumn,
    values: BinaryColumn,
    batch_bytes: int,
    choices: NDArray[np.int32],
    state: NDArray[np.int64],
    out: NDArray[np.int32],
) -> None:
    """Fill in the sticky partition of every row whose `out` is negative, in the rows' order.

    After `batch_bytes` or more have gone to a partition, the next one comes from `choices`, which
    has enough of them. The caller passes `state` on from call to call, with DRAWN set to 0.
    """
    for row in range(len(out)):
        if out[row] >= 0:
            continue
        if state[STICKY_BYTES] >= batch_bytes or state[STICKY_PARTITION] < 0:
            state[STICKY_PARTITION] = choices[state[DRAWN]]
            state[STICKY_BYTES] = 0
            state[DRAWN] += 1
        size = RECORD_FIXED + field_size(length(keys, row)) + field_size(length(values, row))
        state[STICKY_BYTES] += varint_size(size) + size
        out[row] = state[STICKY_PARTITION]


@kernel(types.int64(binary_column, int64, int32s_out))
def assign_by_key(keys: BinaryColumn, num_partitions: int, out: NDArray[np.int32]) -> int:
    """Fill in the partition of every row by its key, -1 for a null key; return how many are null.

    The partition is toPositive(murmur2(key)) % num_partitions, over all partitions.
    """
    nulls = 0
    for row in range(len(out)):
        if length(keys, row) < 0:
            out[row] = -1
            nulls += 1
        else:
            start, end = as_int64(keys.offsets[row]), as_int64(keys.offsets[row + 1])
            out[row] = (hash_bytes(keys.data, start, end) & POSITIVE) % num_partitions
    return nulls


def murmur2(offsets: NDArray[np.int32], data: Bytes) -> NDArray[np.int32]:
    """Return the signed murmur2 (int32 array) of the n slices data[offsets[i]:offsets[i + 1]].

    `offsets` has n + 1 ascending entries within `data`.
    """
    out = np.empty(max(len(offsets) - 1, 0), np.int32)
    murmur2_rows(offsets, data, out)
    return out
