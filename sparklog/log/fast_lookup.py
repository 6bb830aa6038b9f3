"""The accelerator of `log.lookup`: two kernels find the batch that an index leads to.

    read              the bytes from the index entry on, once
    walk the headers  to the wanted batch, then compare the checksums (first kernel)
    walk the records  of that batch (second kernel)

The batch is mostly one to three batches behind the index entry. `windows` and `decode` would take
ten times as long, because they make a table of batches and Arrow columns. The accelerator returns
None in all other cases, and its caller walks the windows: for an older format, a gap, a control
batch, damage, an index that does not fit, or a batch behind the first read. Its checks are as
strict as those of `windows` and `Window.verify`, so it never gives another answer. Only the windows
report damage.
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
from sparklog.record.batch_settings import BATCH_BYTES_MAX
from sparklog.record.batches import byte_view
from sparklog.record.checksum import batch_crc32c
from sparklog.record.codecs.decompression import decompress
from sparklog.record.scan import BatchHeader, unpack_header

BATCHES_MAX: Final = 128
"""How many batches are walked at most; an index has an entry every few kilobytes."""
NOT_NAMED: Final = TimestampOffset(NO_TIMESTAMP, -1)
"""Means "no entry of a time index"."""


class FoundBatch(NamedTuple):
    """A batch of a segment, and its first record that a lookup wants.

    `index_entry` is the entry of the offset index at which the search began. `position` and `size`
    (bytes) tell where the batch is in the segment. Offsets are the log's, timestamps ms. `offset`
    and `timestamp` are the record's; -1 if the batch has no such record (a control batch, or one
    that compaction has emptied).
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
        """The record's timestamp and offset, as ListOffsets returns them."""
        return TimestampOffset(self.timestamp, self.offset)


def find_record(
    segment: SegmentLog,
    floor: OffsetPosition,
    wanted: TimestampOffset,
    named: TimestampOffset = NOT_NAMED,
) -> FoundBatch | None:
    """Return the first record whose time and offset are at or above `wanted`.

    None if the accelerator cannot tell: then walk the windows. The offsets of all arguments are the
    file's own. `floor` is the entry of the offset index where the search begins, `named` the entry
    of the time index that led there; both are compared with their batches.
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
    """Return the position in `view` of the first batch that may hold a wanted record.

    None if there is none among the first BATCHES_MAX batches, or if a batch up to it is damaged or
    out of place: each batch must begin where the batch before it ends. `bounds` are the last offset
    of the first batch (-1 if it is not known), the smallest allowed offset, and the end of the
    allowed offsets. With -1 the first batch must begin at the smallest allowed offset.
    """
    # Imported at the first lookup, so that a service starts without the kernels.
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
    """Return the first wanted record of the batch at `at`; UNKNOWN_OFFSET if it has none.

    A control batch counts as one without records. Raises CorruptRecordError, without a position, if
    any record of the batch is damaged.
    """
    from sparklog.record.kernels import fast_lookup as kernels
    from sparklog.record.payload import REASONS

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
