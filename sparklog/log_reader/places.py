"""Where in the files an offset is: what a person debugging, or a job that cuts slices, asks."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from sparklog.log.lookup import floor_of
from sparklog.log.shortcut import find_record
from sparklog.log.windows import WINDOW_BYTES, SegmentLog, windows
from sparklog.log_reader.opened import ask
from sparklog.log_reader.topic import TopicReader
from sparklog.model import NO_TIMESTAMP, OffsetPosition, SegmentEntry, TimestampOffset

_ANY_TIME: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A batch in its segment: the one that holds an offset, or the next one where a gap is.

    `index_entry` is what the offset index led to, the beginning of the file without one;
    `position` and `size` are the batch's bytes in the `.log`; offsets are those of the log.
    `offset` and `timestamp` are the first record's at or above the offset asked for, -1 for a batch
    that has none (a marker, or one that compaction has emptied).
    """

    segment: SegmentEntry
    index_entry: OffsetPosition
    position: int
    size: int
    base_offset: int
    last_offset: int
    offset: int
    timestamp: int


def find_place(reader: TopicReader, partition: int, offset: int) -> RecordPlace | None:
    """Return the place of an offset of the log; None when nothing is left from there on.

    Raises UnknownTopicError, OffsetOutOfRangeError for an offset that is not in the log,
    CorruptRecordError naming file, position and offset, and MissingFileError.
    """
    reader.partition(partition).check_range(offset, offset + 1)
    segments = reader.image.segments(partition)
    slot = segments.first_ending_after(offset)
    for later in range(len(segments) if slot is None else slot, len(segments)):
        question = partial(_first_from, offset=offset)
        found = ask(reader.opened(segments.entry(later)), reader.directory, question)
        if found is not None:
            return found
    return None


def _first_from(segment: SegmentLog, offset: int) -> RecordPlace | None:
    entry = segment.entry
    wanted = max(offset, entry.base_offset) - entry.shift
    floor = floor_of(segment, wanted)
    return _near(segment, floor, wanted) or _walked(segment, floor, offset)


def _near(segment: SegmentLog, floor: OffsetPosition, offset: int) -> RecordPlace | None:
    """The place of the file's own `offset`, the short way; None: not this way."""
    found = find_record(segment, floor, TimestampOffset(_ANY_TIME, offset))
    if found is None:
        return None
    (record, header, position), shift = found, segment.entry.shift
    return RecordPlace(
        segment=segment.entry,
        index_entry=floor,
        position=position,
        size=header.size,
        base_offset=header.base_offset + shift,
        last_offset=header.last_offset + shift,
        offset=record.offset + shift,
        timestamp=record.timestamp,
    )


def _walked(segment: SegmentLog, floor: OffsetPosition, offset: int) -> RecordPlace | None:
    entry = segment.entry
    for window in windows(segment, floor, segment.lookup_bytes, WINDOW_BYTES):
        batch = window.needed(offset).slice(0, 1)
        if not len(batch):
            continue
        records = window.decoded(("offset", "timestamp"), offset, None, batch)
        has_records = records.num_rows > 0
        return RecordPlace(
            segment=entry,
            index_entry=floor,
            position=window.position + int(batch.position[0]),
            size=int(batch.size[0]),
            base_offset=int(batch.base_offset[0]) + entry.shift,
            last_offset=int(batch.last_offset[0]) + entry.shift,
            offset=records.offset[0].as_py() if has_records else -1,
            timestamp=records.timestamp[0].as_py() if has_records else NO_TIMESTAMP,
        )
    return None
