"""A 64-bit hash of keys: XXH64 with seed 0, the same on every machine and in every release.

XXH64's numbers are unsigned; here they are int64 with the same bits. Equal hashes do not mean equal
keys: compaction compares the bytes of the keys before it drops a record.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.record.kernels.jit import bytes_in, inlined, int32s_in, int64s_out, kernel, types
from sparklog.record.kernels.primitives import Bytes, wrapping_add, wrapping_mul
from sparklog.record.kernels.primitives import int64 as as_int64

P1: Final = -0x61C8_864E_7A14_3579
P2: Final = -0x3D4D_51C2_D82B_14B1
P3: Final = 0x1656_67B1_9E37_79F9
P4: Final = -0x7A14_3588_3D4D_519D
P5: Final = 0x27D4_EB2F_1656_67C5
P1_PLUS_P2: Final = 0x60EA_27EE_ADC0_B5D6
MINUS_P1: Final = 0x61C8_864E_7A14_3579


@inlined
def rotate(value: int, bits: int) -> int:
    """Return the value with its bits rotated left."""
    wide = as_int64(value)
    return (wide << bits) | ((wide >> (64 - bits)) & ((1 << bits) - 1))


@inlined
def shifted_in(value: int, bits: int) -> int:
    """Return the value XOR itself shifted right, with zeros from the left."""
    wide = as_int64(value)
    return wide ^ ((wide >> bits) & ((1 << (64 - bits)) - 1))


@inlined
def word32(data: Bytes, at: int) -> int:
    """Return the little-endian 32 bits at `at`, unsigned."""
    return (
        as_int64(data[at])
        | as_int64(data[at + 1]) << 8
        | as_int64(data[at + 2]) << 16
        | as_int64(data[at + 3]) << 24
    )


@inlined
def word64(data: Bytes, at: int) -> int:
    """Return the little-endian 64 bits at `at`."""
    return word32(data, at) | word32(data, at + 4) << 32


@inlined
def round64(lane: int, word: int) -> int:
    """Return a lane after one more word."""
    return wrapping_mul(rotate(wrapping_add(lane, wrapping_mul(word, P2)), 31), P1)


@inlined
def merged(hashed: int, lane: int) -> int:
    """Return the hash with a lane merged in."""
    return wrapping_add(wrapping_mul(hashed ^ round64(0, lane), P1), P4)


@inlined
def long_hash(data: Bytes, start: int, end: int) -> tuple[int, int]:
    """Return the four lanes over all whole 32 bytes, merged, and the position where they end."""
    one, two, three, four = as_int64(P1_PLUS_P2), as_int64(P2), as_int64(0), as_int64(MINUS_P1)
    at = start
    while at + 32 <= end:
        one = round64(one, word64(data, at))
        two = round64(two, word64(data, at + 8))
        three = round64(three, word64(data, at + 16))
        four = round64(four, word64(data, at + 24))
        at += 32
    hashed = wrapping_add(
        wrapping_add(rotate(one, 1), rotate(two, 7)),
        wrapping_add(rotate(three, 12), rotate(four, 18)),
    )
    return merged(merged(merged(merged(hashed, one), two), three), four), at


@inlined
def hash_key(data: Bytes, start: int, end: int) -> int:
    """Return the XXH64 of data[start:end]."""
    hashed, at = as_int64(P5), start
    if end - start >= 32:
        hashed, at = long_hash(data, start, end)
    hashed = wrapping_add(hashed, end - start)
    while at + 8 <= end:
        lane = round64(0, word64(data, at))
        hashed = wrapping_add(wrapping_mul(rotate(hashed ^ lane, 27), P1), P4)
        at += 8
    if at + 4 <= end:
        lane = wrapping_mul(word32(data, at), P1)
        hashed = wrapping_add(wrapping_mul(rotate(hashed ^ lane, 23), P2), P3)
        at += 4
    while at < end:
        hashed = wrapping_mul(rotate(hashed ^ wrapping_mul(as_int64(data[at]), P5), 11), P1)
        at += 1
    hashed = wrapping_mul(shifted_in(hashed, 33), P2)
    hashed = wrapping_mul(shifted_in(hashed, 29), P3)
    return shifted_in(hashed, 32)


@kernel(types.void(int32s_in, bytes_in, int64s_out))
def hash_rows(offsets: NDArray[np.int32], data: Bytes, out: NDArray[np.int64]) -> None:
    """Fill `out` with the hash of each data[offsets[i]:offsets[i + 1]]."""
    for row in range(len(out)):
        out[row] = hash_key(data, as_int64(offsets[row]), as_int64(offsets[row + 1]))
