"""The accelerator of `log.lookup`: the one batch that an index leads to, found by two kernels.

    one read    the bytes from the index entry on
    kernel      walks their headers to the batch; checksums on the way are compared
    kernel      walks the records of that batch

Behind a good index the answer is one to three batches away, and `windows` and `decode` take ten
times as long: they make a table of batches and Arrow columns. The accelerator answers only where
all is right. None means "ask the windows": another format, a gap, a marker, damage, an index that
does not fit, a batch behind the first read. Its checks are no weaker than those of `windows` and
`Window.verify`, so the two never answer differently, and the windows alone report damage.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.log.windows import SegmentLog
from sparklog.model import (
    NO_TIMESTAMP,
    UNKNOWN_OFFSET,
    OffsetPosition,
    SegmentEntry,
    TimestampOffset,
)
from sparklog.record import layout
from sparklog.record.batches import byte_view
from sparklog.record.checksum import batch_crc32c
from sparklog.record.decompression import decompress
from sparklog.record.scan import BatchHeader, unpack_header

BATCHES_MAX: Final = 128
"""Most batches that are walked; an index has an entry every few kilobytes."""
NOT_NAMED: Final = TimestampOffset(NO_TIMESTAMP, -1)
"""No entry of a time index."""


class FoundBatch(NamedTuple):
    """A batch of a segment, and the first of its records that a lookup wants.

    `index_entry` is the entry of the offset index at which the search began. `position` and `size`
    are the batch's bytes in the segment. Offsets are those of the log. `offset` and `timestamp` are
    the record's; -1 where the batch has no such record (a marker, or a batch that compaction has
    emptied).
    """

    segment: SegmentEntry
    index_entry: OffsetPosition
    position: int
    size: int
    base_offset: int
    last_offset: int
    offset: int
    timestamp: int

    @property
    def record(self) -> TimestampOffset:
        """The record as ListOffsets answers it."""
        return TimestampOffset(self.timestamp, self.offset)


def find_record(
    segment: SegmentLog,
    floor: OffsetPosition,
    wanted: TimestampOffset,
    named: TimestampOffset = NOT_NAMED,
) -> FoundBatch | None:
    """Return the first record with neither time nor offset below `wanted`; None: ask the windows.

    Arguments are in the file's numbering. `floor` is the entry of the offset index to begin at,
    `named` the entry of the time index that led there: both are held against their batches.
    """
    entry = segment.entry
    left = entry.log_bytes - floor.position
    view = byte_view(segment.read(floor.position, min(segment.lookup_bytes, left)))
    first_last = floor.offset if floor.position else -1
    bounds = first_last, entry.file_base_offset, entry.file_next_offset
    at = find_batch(view, bounds, wanted, named)
    if at is None:
        return None
    header = unpack_header(view, at)
    try:
        record = first_record(view, at, header, wanted)
    except CorruptRecordError:
        return None
    if record == UNKNOWN_OFFSET:
        return None
    shift = entry.shift
    return FoundBatch(
        entry,
        floor,
        floor.position + at,
        header.size,
        header.base_offset + shift,
        header.last_offset + shift,
        record.offset + shift,
        record.timestamp,
    )


def find_batch(
    view: NDArray[np.uint8],
    bounds: tuple[int, int, int],
    wanted: TimestampOffset,
    named: TimestampOffset = NOT_NAMED,
) -> int | None:
    """Return where the first batch begins that may hold a wanted record, all before it verified.

    `bounds` are the last offset of the batch at the front (-1: not known, it begins at the next
    number), the least of all offsets, and the one behind the last. Each batch begins where the one
    before it ends. None when no such batch is near, or any batch up to it is not as it must be.
    """
    # Loaded with the first lookup: the kernels take a while, and a service answers before.
    from sparklog.record.kernels import fast_lookup as kernels

    passed = np.empty((BATCHES_MAX, 3), np.int64)
    rows = passed[: kernels.walk_to(view, bounds, (*named,), (*wanted,), passed)].tolist()
    if not rows or any(batch_crc32c(view, at, end) != checksum for at, end, checksum in rows):
        return None
    position: int = rows[-1][0]
    return position


def first_record(
    view: NDArray[np.uint8], at: int, header: BatchHeader, wanted: TimestampOffset
) -> TimestampOffset:
    """Return the first wanted record of the batch at `at`; UNKNOWN_OFFSET when it has none.

    A marker has no records. Raises CorruptRecordError, without a position, when any record of the
    batch is damaged.
    """
    from sparklog.record.kernels import fast_lookup as kernels
    from sparklog.record.payload import BATCH_BYTES_MAX, REASONS

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
