"""The short way of a lookup: to the one batch that an index leads close to, while all is right.

Behind a good index the answer is one to three batches away, and to make a table of batches and
columns of records (`windows`) takes ten times as long as to look at these. Whatever is not plainly
right (another format, a gap, a marker, damage, an index that does not fit) and whatever lies
further away than one read ends the short way without a word: the caller then goes the long way,
which knows all of that and says what is wrong. So the two never answer differently.
"""

from sparklog.errors import CorruptRecordError
from sparklog.log.placement import file_next_offset
from sparklog.log.windows import SegmentLog
from sparklog.model import UNKNOWN_OFFSET, OffsetPosition, TimestampOffset
from sparklog.record.batches import byte_view
from sparklog.record.header import BatchHeader
from sparklog.record.lookup import NOT_NAMED, find_batch, first_record


def find_record(
    segment: SegmentLog,
    floor: OffsetPosition,
    wanted: TimestampOffset,
    named: TimestampOffset = NOT_NAMED,
) -> tuple[TimestampOffset, BatchHeader, int] | None:
    """The first record with neither time nor offset below `wanted`; None: not this way.

    With its batch's header and position. All offsets are the file's own. `floor` is the entry of
    the offset index to begin at, `named` that of the time index which led there: both are held
    against their batches, and checks are no weaker than those of `windows` and `Window.verify`.
    """
    entry = segment.entry
    left = entry.log_bytes - floor.position
    view = byte_view(segment.read(floor.position, min(segment.lookup_bytes, left)))
    first_last = floor.offset if floor.position else -1
    bounds = first_last, entry.file_base_offset, file_next_offset(entry)
    batch = find_batch(view, bounds, wanted, named)
    if batch is None:
        return None
    try:
        record = first_record(batch, wanted)
    except CorruptRecordError:
        return None
    if record == UNKNOWN_OFFSET:
        return None
    return record, batch.header, floor.position + batch.at
