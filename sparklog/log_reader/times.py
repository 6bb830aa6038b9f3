"""ListOffsets by time: which record is the first at or after T, which has the largest timestamp.

The segment list narrows a question to one segment; `sparklog.log.lookup` finds it there.
"""

from functools import partial

from sparklog.log.lookup import first_at_or_after, newest
from sparklog.log_reader.opened import ask
from sparklog.log_reader.topic import TopicReader
from sparklog.model import NO_TIMESTAMP, UNKNOWN_OFFSET, TimestampOffset


def find_first(reader: TopicReader, partition: int, timestamp: int) -> TimestampOffset:
    """Return the first record of a partition's log with a timestamp >= `timestamp`.

    (-1, -1) when there is none. Where Kafka gives up after the first segment that may match
    (UnifiedLog.fetchOffsetByTimestamp), the search goes on to later ones.
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

    (-1, -1) when no record has a timestamp. What the manifest says of a segment is an upper bound:
    the log may start above the record, or compaction may have dropped it.
    """
    start, segments = reader.partition(partition).log_start_offset, reader.image.segments(partition)
    first = segments.first_ending_after(start)
    best = UNKNOWN_OFFSET
    if first is None:
        return best
    bounds = segments.max_timestamp[first:]
    while bounds.max() >= max(best.timestamp, 0):
        slot = int(bounds.argmax())
        entry = segments.entry(first + slot)
        found = ask(reader.opened(entry), reader.directory, partial(newest, start=start))
        best = max(best, found, key=lambda one: (one.timestamp, -one.offset))
        if found.timestamp == bounds[slot]:
            break  # no other has more, and none before it as much
        bounds = bounds.copy()
        bounds[slot] = NO_TIMESTAMP
    return best
