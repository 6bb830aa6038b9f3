"""The partition of __consumer_offsets that a group belongs to."""

import struct
from functools import lru_cache
from typing import Final

GROUPS: Final = 10_000
"""The most groups whose partition is cached: every request of a group needs it."""


def java_hash(text: str) -> int:
    """Return String.hashCode: an int32 over the UTF-16 code units of a text."""
    found = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - 2**32 if found >= 2**31 else found


@lru_cache(GROUPS)
def partition_of(group_id: str, num_partitions: int) -> int:
    """Return a group's partition (GroupCoordinatorService.partitionFor, Utils.abs)."""
    found = java_hash(group_id)
    return (0 if found == -(2**31) else abs(found)) % num_partitions
