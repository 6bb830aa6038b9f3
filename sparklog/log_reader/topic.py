"""A topic at one snapshot: where the log of each partition begins and ends, and its slices."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparklog.errors import OffsetOutOfRangeError, UsageError
from sparklog.manifest.catalog import Catalog, check_partition, topic_directory
from sparklog.manifest.store import PartitionState, Snapshot
from sparklog.model import NO_TIMESTAMP, SegmentEntry, TimestampOffset, TopicDescription
from sparklog.storage.files import Files

if TYPE_CHECKING:
    from sparklog.log.windows import SegmentLog
    from sparklog.log_reader.kept import KeptSegments

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets [start, end) of the log that lie in one segment. Picklable, without bytes."""

    segment: SegmentEntry
    start: int
    end: int


class TopicReader:
    """Reads one topic at one snapshot.

    With `kept` segments stay open from one lookup to the next, for a process that makes many.
    """

    def __init__(
        self,
        files: Files,
        topic: TopicDescription,
        snapshot: Snapshot,
        kept: "KeptSegments | None" = None,
    ) -> None:
        self.files = files
        self.topic = topic
        self.snapshot = snapshot
        self.directory = topic_directory(topic)
        self._kept = kept

    @classmethod
    def open(cls, catalog: Catalog, topic: str) -> "TopicReader":
        """Return a reader of the newest snapshot. Raises UnknownTopicError."""
        description = catalog.topic(topic)
        return cls(catalog.files, description, catalog.store(description).snapshot())

    def log_start_offset(self, partition: int) -> int:
        """Return the first offset that can be read. Raises UnknownTopicError."""
        return self._state(partition).log_start_offset

    def log_end_offset(self, partition: int) -> int:
        """Return the offset that the next record will get. Raises UnknownTopicError."""
        return self._state(partition).log_end_offset

    def _state(self, partition: int) -> PartitionState:
        check_partition(self.topic, partition)
        return self.snapshot.state(partition)

    def list_offset(self, partition: int, timestamp: int) -> TimestampOffset:
        """Answer ListOffsets for one partition (UnifiedLog.fetchOffsetByTimestamp).

        -1 latest and -2 earliest answer with timestamp -1; -3 the record with the largest
        timestamp; T >= 0 the first record at or after T. (-1, -1) when there is none. Where Kafka
        gives up after the first segment that may match, the search goes on to later ones. Raises
        UnknownTopicError, UsageError (another negative time), CorruptRecordError, MissingFileError.
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
        # Only a time needs to look into files: the rest answers without loading the decoder.
        from sparklog.log_reader.find import find_newest, find_timestamp

        if timestamp == MAX_TIMESTAMP:
            return find_newest(self, partition)
        return find_timestamp(self, partition, timestamp)

    def opened(self, entry: SegmentEntry) -> "SegmentLog":
        """Return one of the topic's segments, to look into."""
        if self._kept is not None:
            return self._kept.opened(self.directory, entry)
        from sparklog.log_reader.opened import opened

        return opened(self.files, self.directory, entry)

    def slices(self, partition: int, start: int, end: int) -> list[Slice]:
        """Return the slices that hold [start, end), in order; raises as `iter_slices`."""
        return list(self.iter_slices(partition, start, end))

    def iter_slices(self, partition: int, start: int, end: int) -> Iterator[Slice]:
        """Return the same, each made when it is asked for: a fetch reads the first few of many.

        Gaps that compaction left give no slice. Raises UnknownTopicError, and OffsetOutOfRangeError
        when the range does not lie within the log.
        """
        self.check_range(partition, start, end)
        segments = self.snapshot.segments(partition)
        entries = map(segments.entry, segments.range(start, end))
        return (
            Slice(entry, max(start, entry.base_offset), min(end, entry.next_offset))
            for entry in entries
        )

    def check_range(self, partition: int, start: int, end: int) -> None:
        """Raise OffsetOutOfRangeError unless [start, end) is within the log, UnknownTopicError."""
        state = self._state(partition)
        low, high = state.log_start_offset, state.log_end_offset
        if not low <= start <= end <= high:
            is_one = 0 <= end - start < 2
            what = f"offset {start} is" if is_one else f"offsets [{start}, {end}) are"
            raise OffsetOutOfRangeError(
                f"{self.topic.name}-{partition}: {what} not within the log, [{low}, {high})",
                partition=partition,
            )
