"""Consume: a topic's manifest and files to records, and ListOffsets' answers.

    TopicReader   snapshot -> log start, log end, offsets for times, slices of segments
    read_slices   slices -> Arrow records, checked and in the order of the log

A slice names a segment and the offsets wanted of it. Where in the file they begin is found by
whoever reads, through the segment's index; a damaged or missing index costs a scan, never records.
"""

from typing import Final

from sparklog.errors import (
    OffsetOutOfRangeError,
    UsageError,
)
from sparklog.log.lookup import SegmentView
from sparklog.log.segments import SegmentList
from sparklog.manifest.catalog import Catalog, topic_directory
from sparklog.manifest.store import Snapshot
from sparklog.model import (
    NO_TIMESTAMP,
    UNKNOWN_OFFSET,
    SegmentEntry,
    TimestampOffset,
    TopicDescription,
)
from sparklog.storage.files import Files

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


class TopicReader:
    """Reads one topic at one snapshot; `refresh` moves on to the newest."""

    def __init__(self, files: Files, topic: TopicDescription, snapshot: Snapshot) -> None:
        self.files = files
        self.topic = topic
        self.snapshot = snapshot
        self.directory = topic_directory(topic)

    @classmethod
    def open(cls, catalog: Catalog, topic: str) -> "TopicReader":
        """Return a reader of the newest snapshot. Raises UnknownTopicError."""
        description = catalog.topic(topic)
        return cls(catalog.files, description, catalog.store(description).snapshot())

    def log_start_offset(self, partition: int) -> int:
        """Return the first offset that can be read."""
        return self.snapshot.state(partition).log_start_offset

    def log_end_offset(self, partition: int) -> int:
        """Return the offset that the next record will get."""
        return self.snapshot.state(partition).log_end_offset

    def list_offset(self, partition: int, timestamp: int) -> TimestampOffset:
        """Answer ListOffsets for one partition (UnifiedLog.fetchOffsetByTimestamp).

        -1 latest and -2 earliest answer with timestamp -1; -3 the record with the largest
        timestamp; T >= 0 the first record at or after T. (-1, -1) when there is none. Where Kafka
        gives up after the first segment that may match, the search goes on to later ones.
        """
        if timestamp == LATEST:
            return TimestampOffset(NO_TIMESTAMP, self.log_end_offset(partition))
        if timestamp == EARLIEST:
            return TimestampOffset(NO_TIMESTAMP, self.log_start_offset(partition))
        if timestamp < MAX_TIMESTAMP:
            raise UsageError(
                f"timestamp {timestamp} means nothing: allowed are -1 (latest), -2 (earliest), "
                f"-3 (largest timestamp) and milliseconds since 1970"
            )
        segments, start = self.snapshot.segments(partition), self.log_start_offset(partition)
        if timestamp == MAX_TIMESTAMP:
            return self._largest(segments, start)
        return self._first_from(segments, start, timestamp)

    def _largest(self, segments: SegmentList, start: int) -> TimestampOffset:
        slot = segments.largest_timestamp(start)
        if slot is None:
            return UNKNOWN_OFFSET
        view = self.view(segments.entry(slot))
        return view.largest_timestamp(start)

    def _first_from(self, segments: SegmentList, start: int, timestamp: int) -> TimestampOffset:
        slot = segments.first_with_timestamp(timestamp, start)
        while slot is not None:
            entry = segments.entry(slot)
            found = self.view(entry).first_from(timestamp, start)
            if found != UNKNOWN_OFFSET:
                return found
            start = entry.next_offset
            slot = segments.first_with_timestamp(timestamp, start)
        return UNKNOWN_OFFSET

    def view(self, entry: SegmentEntry) -> SegmentView:
        """Return a segment with its bytes and those of its indexes that are sound."""
        return open_segment(self.files, self.directory, entry)

    def slices(self, partition: int, start: int, end: int) -> list[Slice]:
        """Return the slices that hold the offsets [start, end), in order.

        Gaps that compaction left give no slice. Raises OffsetOutOfRangeError when the range does
        not lie within the log.
        """
        low, high = self.log_start_offset(partition), self.log_end_offset(partition)
        if not low <= start <= end <= high:
            raise OffsetOutOfRangeError(
                f"{self.topic.name}-{partition}: offsets [{start}, {end}) are not within the log, "
                f"[{low}, {high})",
                partition=partition,
            )
        segments = self.snapshot.segments(partition)
        entries = [segments.entry(slot) for slot in segments.range(start, end)]
        return [
            Slice(entry, max(start, entry.base_offset), min(end, entry.next_offset))
            for entry in entries
        ]
