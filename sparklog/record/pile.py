"""The decompressed records of many batches, one after the other in one array."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.record.batches import BatchTable
from sparklog.record.columns import check_size
from sparklog.record.decompression import decompress

BATCH_BYTES_MAX: Final = 256 * 2**20
"""Most bytes that one batch may decompress to, unless the caller says otherwise."""

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def decompress_all(
    view: Bytes, batches: BatchTable, starts: Int64s, ends: Int64s, max_bytes: int | None
) -> tuple[Bytes, Int64s, Int64s]:
    """Decompresses [start, end) of every batch; returns the pile, and each one's start and end.

    Raises CorruptRecordError, with position and offset of the batch, for a damaged stream and for
    one that holds more than `max_bytes` (BATCH_BYTES_MAX when None): no batch that a broker takes
    comes near it, so it is a bomb. Raises UsageError when all together are above 2**31-1 bytes.
    """
    limit = BATCH_BYTES_MAX if max_bytes is None else max_bytes
    streams = zip(
        batches.codec.tolist(), batches.magic.tolist(), starts.tolist(), ends.tolist(), strict=True
    )
    pieces: list[bytes] = []
    total = 0
    for codec, magic, start, end in streams:
        try:
            pieces.append(decompress(codec, view[start:end], limit, magic))
        except CorruptRecordError as error:
            raise placed(error, batches, len(pieces)) from None
        total += len(pieces[-1])
        check_size(total)
    ends_in_pile = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts_in_pile = np.zeros_like(ends_in_pile)
    starts_in_pile[1:] = ends_in_pile[:-1]
    return np.frombuffer(b"".join(pieces), np.uint8), starts_in_pile, ends_in_pile


def placed(error: CorruptRecordError, batches: BatchTable, batch: int) -> CorruptRecordError:
    """The same error, at that batch."""
    position, offset = int(batches.position[batch]), int(batches.base_offset[batch])
    return type(error)(error.args[0], position=position, offset=offset)
