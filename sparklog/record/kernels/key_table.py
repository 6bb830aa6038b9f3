"""Which records have a later one with the same key: a hash table over rows in offset order.

slots    int32, a power of two of them: the number of the latest row with a key, -1 = free. The top
         bits of a row's hash give its first slot; if that is taken, the next slots are tried. So a
         walk over sorted hashes walks the table in order.
"""

from typing import NamedTuple

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
from sparklog.record.kernels.primitives import Bytes
from sparklog.record.kernels.primitives import int64 as as_int64


class Keys(NamedTuple):
    """Row i has the key data[ends[i]:ends[i + 1]] and the hash hashes[i]."""

    hashes: NDArray[np.int64]
    ends: NDArray[np.int64]
    data: Bytes


keys_type = named_tuple(Keys, int64s_in, int64s_in, bytes_in)


@inlined
def home(hashed: int, skipped_bits: int, bits: int) -> int:
    """Return a hash's first slot: `bits` of it behind the `skipped_bits` that all rows share."""
    return ((as_int64(hashed) << skipped_bits) >> (64 - bits)) & ((1 << bits) - 1)


@inlined
def is_same_key(keys: Keys, a: int, b: int) -> bool:
    """Return whether two rows have the same key."""
    size = keys.ends[a + 1] - keys.ends[a]
    if keys.hashes[a] != keys.hashes[b] or size != keys.ends[b + 1] - keys.ends[b]:
        return False
    left, right = keys.ends[a], keys.ends[b]
    at = 0
    while at < size and keys.data[left + at] == keys.data[right + at]:
        at += 1
    return bool(at == size)


@kernel(types.void(keys_type, int64s_in, int64, int64, int32s_out, bytes_out))
def mark_superseded(
    keys: Keys,
    order: NDArray[np.int64],
    skipped_bits: int,
    bits: int,
    slots: NDArray[np.int32],
    superseded: Bytes,
) -> None:
    """Set superseded[i] to 1 if a later row has the key of row i, and fill the table.

    Rows are taken in the order of `order`. Rows with the same key must be in offset order in it;
    for the others any order is right. It is fastest if rows whose hashes begin alike are together,
    because then they use one part of the table, which stays in the processor's cache. `slots`
    begins as -1, and has 2**bits entries, more than there are rows.
    """
    mask = (1 << bits) - 1
    for index in range(len(order)):
        row = order[index]
        slot = home(keys.hashes[row], skipped_bits, bits)
        while slots[slot] >= 0 and not is_same_key(keys, as_int64(slots[slot]), row):
            slot = (slot + 1) & mask
        if slots[slot] >= 0:
            superseded[slots[slot]] = 1
        slots[slot] = row


@kernel(
    int64(int64s_in, int64s_in, int64, int64, int32s_out, int64s_out, int64s_out),
)
def find_hashes(
    wanted: NDArray[np.int64],
    hashes: NDArray[np.int64],
    skipped_bits: int,
    bits: int,
    slots: NDArray[np.int32],
    found_wanted: NDArray[np.int64],
    found_row: NDArray[np.int64],
) -> int:
    """Write (index in `wanted`, row) for each row of the table whose hash is wanted.

    Returns how many there are; if the outputs are full, the others are only counted.
    """
    mask = (1 << bits) - 1
    count = 0
    for index in range(len(wanted)):
        slot = home(wanted[index], skipped_bits, bits)
        while slots[slot] >= 0:
            row = as_int64(slots[slot])
            if hashes[row] == wanted[index]:
                if count < len(found_row):
                    found_wanted[count] = index
                    found_row[count] = row
                count += 1
            slot = (slot + 1) & mask
    return count
