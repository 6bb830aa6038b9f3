"""The partition of __consumer_offsets that a group belongs to."""

import struct
from functools import lru_cache
from typing import Final

GROUPS: Final = 10_000
"""The most groups whose partition is cached: every request of a group needs it."""
CACHED_MAX: Final = 255
"""The most characters of a cached id."""
ID_MAX: Final = 2**15 - 1
"""The most characters of an id: a record's key has its size in bytes as an int16."""


def java_hash(text: str) -> int:
    """Return String.hashCode: an int32 over the UTF-16 code units of a text."""
    found = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - 2**32 if found >= 2**31 else found


def partition_of(group_id: str, num_partitions: int) -> int:
    """Return a group's partition (GroupCoordinatorService.partitionFor, Utils.abs).

    Returns 0 for an id that no record can have: its coordinator refuses it, as any other would.
    """
    if len(group_id) <= CACHED_MAX:
        return _cached(group_id, num_partitions)
    return _found(group_id, num_partitions) if len(group_id) <= ID_MAX else 0


def _found(group_id: str, num_partitions: int) -> int:
    found = java_hash(group_id)
    return (0 if found == -(2**31) else abs(found)) % num_partitions


_cached: Final = lru_cache(GROUPS)(_found)
