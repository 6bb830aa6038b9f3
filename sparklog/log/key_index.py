"""The key index of a compacted segment: the hashes of its keys, without their bytes.

    directory   256 entries of 8 bytes: how many keys have a hash whose top byte is i (uint32),
                and the CRC-32C of their part (uint32)
    checksum    4 bytes: the CRC-32C of the directory (uint32)
    256 parts   for each top byte: n hashes (uint64, ascending), then n offsets (uint32), each the
                record's offset - the segment's base offset

Little-endian. The hash is XXH64 of the key (record.kernels.key_hash). It tells the next compaction
which segments may hold a key that was written again; only these segments are read. If two keys have
the same hash, a segment is read in vain. No record is lost, because the keys are compared before a
record is dropped.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError
from sparklog.log.names import KEY_INDEX_SUFFIX
from sparklog.record.batches import Buffer, byte_view
from sparklog.record.checksum import crc32c

PARTS: Final = 256
PARTS_BITS: Final = 8
DIRECTORY_BYTES: Final = 8 * PARTS
HEAD_BYTES: Final = DIRECTORY_BYTES + 4
ENTRY_BYTES: Final = 12

Int64s = NDArray[np.int64]


class KeyHashes(NamedTuple):
    """Hashes (int64, the bits of XXH64) and deltas (int64): offset - the segment's base offset."""

    hashes: Int64s
    deltas: Int64s


def encode(keys: KeyHashes) -> bytes:
    """Return the bytes of the key index; `keys` may be in any order."""
    order = np.argsort(keys.hashes.view(np.uint64))
    hashes, deltas = keys.hashes[order].astype("<i8"), keys.deltas[order].astype("<u4")
    bounds = np.searchsorted(part_of(hashes), np.arange(PARTS + 1)).tolist()
    parts = [
        hashes[start:stop].tobytes() + deltas[start:stop].tobytes()
        for start, stop in pairwise(bounds)
    ]
    entries = [(len(part) // ENTRY_BYTES, crc32c(part)) for part in parts]
    directory = np.array(entries, "<u4").tobytes()
    return b"".join([directory, crc32c(directory).to_bytes(4, "little"), *parts])


def read_range(
    read: Callable[[int, int], Buffer], size: int, bucket: int = 0, bits: int = 0
) -> KeyHashes:
    """Return the keys whose hashes begin with the `bits` (0 to 8) bits of `bucket`, ascending.

    `read(position, length)` returns bytes of the file, `size` is its size in the metadata. Raises
    CorruptIndexError if a checksum is wrong, or if `size` does not fit the number of keys.
    """
    counts, checksums = _directory(read(0, HEAD_BYTES), size)
    first = bucket << (PARTS_BITS - bits)
    stop = (bucket + 1) << (PARTS_BITS - bits)
    position = HEAD_BYTES + ENTRY_BYTES * sum(counts[:first])
    view = byte_view(read(position, ENTRY_BYTES * sum(counts[first:stop])))
    hashes, deltas, at = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for count, checksum in zip(counts[first:stop], checksums[first:stop], strict=True):
        part = view[at : at + ENTRY_BYTES * count]
        if crc32c(part) != checksum:
            raise _corrupt(f"the checksum of its part at byte {position + at} is wrong")
        hashes.append(part[: 8 * count].view("<i8"))
        deltas.append(part[8 * count :].view("<u4").astype(np.int64))
        at += ENTRY_BYTES * count
    return KeyHashes(np.concatenate(hashes), np.concatenate(deltas))


def _directory(head: Buffer, size: int) -> tuple[list[int], list[int]]:
    view = byte_view(head)
    directory = view[:DIRECTORY_BYTES]
    checksum = int.from_bytes(view[DIRECTORY_BYTES:].tobytes(), "little")
    if len(view) != HEAD_BYTES or crc32c(directory) != checksum:
        raise _corrupt("the checksum of its directory is wrong")
    entries = directory.view("<u4").reshape(PARTS, 2)
    counts: list[int] = entries[:, 0].tolist()
    if HEAD_BYTES + ENTRY_BYTES * sum(counts) != size:
        raise _corrupt(f"it has {sum(counts)} keys, which do not take {size} bytes")
    return counts, entries[:, 1].tolist()


def part_of(hashes: Int64s) -> Int64s:
    """Return the top byte of each hash (int64)."""
    parts: Int64s = (hashes.view(np.uint64) >> np.uint64(64 - PARTS_BITS)).astype(np.int64)
    return parts


def _corrupt(problem: str) -> CorruptIndexError:
    return CorruptIndexError(problem, suffix=KEY_INDEX_SUFFIX)
