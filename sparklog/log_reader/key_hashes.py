"""The hashes of a segment's keys: those that its key index has, and those of its log."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError
from sparklog.log import key_index
from sparklog.log.key_index import Int64s, KeyHashes
from sparklog.log.names import KEY_INDEX_SUFFIX
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.state.image import Slice
from sparklog.model import SegmentEntry
from sparklog.record.kernels.key_hash import hash_rows
from sparklog.storage.files import Files


def key_hashes(
    files: Files, directory: str, entry: SegmentEntry, bucket: int = 0, bits: int = 0
) -> KeyHashes:
    """Return the keys whose hashes begin with the `bits` (0 to 8) bits of `bucket`, ascending.

    `directory` is the topic's. Raises CorruptIndexError naming the file, and MissingFileError.
    """
    path = f"{directory}/{entry.key_index_path}"
    size = entry.key_index_bytes or 0
    try:
        return key_index.read_range(
            lambda position, length: files.view(path, length, position), size, bucket, bits
        )
    except CorruptIndexError as error:
        raise CorruptIndexError(f"{path}: {error}", suffix=KEY_INDEX_SUFFIX) from None


def key_hashes_of_log(files: Files, directory: str, entry: SegmentEntry) -> KeyHashes:
    """Return what the key index of a segment must have, read from its log. Raises as `read_slices`.

    A segment with a key index has no records of aborted transactions.
    """
    hashes, deltas = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    whole = Slice(entry, entry.base_offset, entry.next_offset)
    for records in read_slices(files, directory, [whole], columns=("key", "offset")):
        has_key = records.key.is_valid()
        hashes.append(hashes_of(records.key.filter(has_key)))
        deltas.append(records.offset.filter(has_key).to_numpy() - entry.base_offset)
    return KeyHashes(np.concatenate(hashes), np.concatenate(deltas))


def hashes_of(keys: Any) -> Int64s:
    """Return the hash of each value of a binary Arrow column without nulls."""
    hashes = np.empty(len(keys), np.int64)
    hash_rows(*key_buffers(keys), hashes)
    return hashes


def key_buffers(keys: Any) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return ends and bytes of a binary Arrow column: value i is data[ends[i] : ends[i + 1]]."""
    _, ends, data = keys.buffers()
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.frombuffer(ends, np.int32)[keys.offset : keys.offset + len(keys) + 1], whole
