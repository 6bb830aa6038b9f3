"""The keys of a segment that has a key index."""

from sparklog.errors import CorruptIndexError
from sparklog.log import key_index
from sparklog.log.key_index import KeyHashes
from sparklog.log.names import KEY_INDEX_SUFFIX
from sparklog.model import SegmentEntry
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
