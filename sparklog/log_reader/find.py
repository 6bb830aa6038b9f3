"""The record of a partition that an offset or a time leads to (ListOffsets), and its batch.

The segment list narrows a question to one segment; `sparklog.log.lookup` finds the record there.
"""

from functools import partial

from sparklog.log.fast_lookup import FoundBatch
from sparklog.log.lookup import batch_from, first_at_or_after, newest
from sparklog.log_reader.opened import ask
from sparklog.log_reader.topic import TopicReader
from sparklog.model import NO_TIMESTAMP, UNKNOWN_OFFSET, TimestampOffset


def find_offset(reader: TopicReader, partition: int, offset: int) -> FoundBatch | None:
    """Return the batch that holds an offset of the log; if the offset is in a gap, the next batch.

    None if there is no batch behind the gap. Raises UnknownTopicError, OffsetOutOfRangeError for an
    offset that is not in the log, CorruptRecordError, which names file, position and offset, and
    MissingFileError.
    """
    reader.partition(partition).check_range(offset, offset + 1)
    segments = reader.image.segments(partition)
    slot = segments.first_ending_after(offset)
    for later in range(len(segments) if slot is None else slot, len(segments)):
        question = partial(batch_from, offset=offset)
        found = ask(reader.opened(segments.entry(later)), reader.directory, question)
        if found is not None:
            return found
    return None


def find_timestamp(reader: TopicReader, partition: int, timestamp: int) -> TimestampOffset:
    """Return the first record of a partition's log with a timestamp >= `timestamp` (ms).

    A miss is UNKNOWN_OFFSET. Kafka looks only into the first segment that may have such a record
    (UnifiedLog.fetchOffsetByTimestamp); this search goes on to later segments. Raises
    UnknownTopicError, CorruptRecordError and MissingFileError, as `find_offset`.
    """
    start, segments = reader.partition(partition).log_start_offset, reader.image.segments(partition)
    slot = segments.first_with_timestamp(timestamp, start)
    while slot is not None:
        entry = segments.entry(slot)
        question = partial(first_at_or_after, timestamp=timestamp, start=start)
        found = ask(reader.opened(entry), reader.directory, question)
        if found != UNKNOWN_OFFSET:
            return found
        slot = segments.first_with_timestamp(timestamp, entry.next_offset)
    return UNKNOWN_OFFSET


def find_newest(reader: TopicReader, partition: int) -> TimestampOffset:
    """Return the first record with the largest timestamp of a partition's log.

    UNKNOWN_OFFSET if no record has a timestamp. The largest timestamp in a segment's row is only an
    upper bound: the record that had it may be below the log start, behind the end of a past log, or
    dropped by compaction. Raises as `find_timestamp`.
    """
    log, segments = reader.partition(partition), reader.image.segments(partition)
    start, end = log.log_start_offset, log.log_end_offset
    first = segments.first_ending_after(start)
    best = UNKNOWN_OFFSET
    if first is None:
        return best
    bounds = segments.max_timestamp[first:]
    while bounds.max() >= max(best.timestamp, 0):
        slot = int(bounds.argmax())
        entry = segments.entry(first + slot)
        question = partial(newest, start=start, end=end if entry.next_offset > end else None)
        found = ask(reader.opened(entry), reader.directory, question)
        best = max(best, found, key=lambda one: (one.timestamp, -one.offset))
        if found.timestamp == bounds[slot]:
            break  # no segment has a newer record, and no earlier segment one as new
        bounds = bounds.copy()
        bounds[slot] = NO_TIMESTAMP
    return best
