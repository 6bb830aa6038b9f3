"""To a batch of magic 2, and to a record in it, without a table of batches or a column of records.

What a lookup needs when an index has led close by. For all else use `scan` and `decode`.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.model import NO_TIMESTAMP, UNKNOWN_OFFSET, TimestampOffset
from sparklog.record import layout
from sparklog.record.checksum import batch_crc32c
from sparklog.record.decompression import decompress
from sparklog.record.header import BatchHeader, unpack_header
from sparklog.record.kernels import lookup as kernels
from sparklog.record.located import REASONS
from sparklog.record.pile import BATCH_BYTES_MAX

BATCHES_MAX: Final = 128
"""Most batches that are walked; an index has an entry every few kilobytes."""
NOT_NAMED: Final = TimestampOffset(NO_TIMESTAMP, -1)


class FoundBatch(NamedTuple):
    """A batch that lies where it must and has the right checksum."""

    view: NDArray[np.uint8]
    at: int
    header: BatchHeader


def find_batch(
    view: NDArray[np.uint8],
    bounds: tuple[int, int, int],
    wanted: TimestampOffset,
    named: TimestampOffset = NOT_NAMED,
) -> FoundBatch | None:
    """Return the first batch that may hold a record with neither time nor offset below `wanted`.

    `bounds` are the last offset of the batch at the front (-1: not known, it begins at the next
    number), the least of all offsets, and the one behind the last. Each batch begins where the one
    before it ends. `named` is the entry of the time index that led here, to be held against its
    batch. None when no such batch is near, or anything before it is not as it must be: `scan` and
    `verify_checksums` tell what.
    """
    passed = np.empty((BATCHES_MAX, 3), np.int64)
    rows = passed[: kernels.walk_to(view, bounds, (*named,), (*wanted,), passed)].tolist()
    if not rows or any(batch_crc32c(view, at, end) != checksum for at, end, checksum in rows):
        return None
    at = rows[-1][0]
    return FoundBatch(view, at, unpack_header(view, at))


def first_record(batch: FoundBatch, wanted: TimestampOffset) -> TimestampOffset:
    """Return the first record of a batch with neither time nor offset below `wanted`.

    UNKNOWN_OFFSET when there is none; a marker has no records. Offsets are the batch's own. Raises
    CorruptRecordError, without a position, when any record is damaged.
    """
    view, at, header = batch
    if header.is_control:
        return UNKNOWN_OFFSET
    if header.record_count < 0:
        raise CorruptRecordError(f"{header.record_count} records")
    start, end = at + layout.RECORDS, at + header.size
    codec = header.attributes & layout.CODEC_MASK
    if codec and start < end:
        plain = decompress(codec, view[start:end], BATCH_BYTES_MAX)
        view, start, end = np.frombuffer(plain, np.uint8), 0, len(plain)
    fields = (
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        int(header.attributes & layout.TIMESTAMP_TYPE_MASK != 0),
    )
    status, *found = kernels.first_record(view, start, end, fields, (*wanted,))
    if status < 0:
        raise CorruptRecordError(REASONS[status])
    return TimestampOffset(*map(int, found))
