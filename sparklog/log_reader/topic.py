"""A topic at one version: where the log of each partition begins and ends, and its slices."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from sparklog.errors import UsageError
from sparklog.metadata.catalog import Catalog, check_partition, topic_directory, topic_of
from sparklog.metadata.state.image import PartitionLog, Slice, TopicImage
from sparklog.model import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    READ_UNCOMMITTED,
    UNKNOWN_OFFSET,
    SegmentEntry,
    TimestampOffset,
    TopicDescription,
)
from sparklog.storage.files import Files

if TYPE_CHECKING:
    from sparklog.log.windows import SegmentLog
    from sparklog.log_reader.kept import KeptSegments


class TopicReader:
    """Reads one topic at one version.

    With `kept` segments stay open from one lookup to the next; for a process that makes many.
    """

    def __init__(
        self,
        files: Files,
        topic: TopicDescription,
        image: TopicImage,
        kept: "KeptSegments | None" = None,
    ) -> None:
        self.files = files
        self.topic = topic
        self.image = image
        self.directory = topic_directory(topic)
        self._kept = kept

    @classmethod
    def open(cls, catalog: Catalog, topic: str) -> "TopicReader":
        """Return a reader of the newest version. Raises UnknownTopicError."""
        description = catalog.topic(topic)
        return cls(catalog.files, description, catalog.topic_image(description))

    @classmethod
    def open_all(
        cls, catalog: Catalog, topics: Collection[TopicDescription]
    ) -> "dict[str, TopicReader]":
        """Return readers of one version by name. Raises ForgottenTopicError.

        The topics are opened together, which reads the runs once: each alone reads them anew.
        """
        image = catalog.image(*topics)
        return {topic.name: cls(catalog.files, topic, topic_of(image, topic)) for topic in topics}

    def partition(self, partition: int) -> PartitionLog:
        """Return one partition's log. Raises UnknownTopicError."""
        check_partition(self.topic, partition)
        return self.image.partition(partition)

    def list_offset(
        self, partition: int, timestamp: int, isolation: str = READ_UNCOMMITTED
    ) -> TimestampOffset:
        """Answer ListOffsets for one partition (UnifiedLog.fetchOffsetByTimestamp).

            LATEST          the log end offset, with timestamp -1
            EARLIEST        the log start offset, with timestamp -1
            MAX_TIMESTAMP   the first record with the largest timestamp
            T >= 0          the first record at or after T (ms)

        A miss is UNKNOWN_OFFSET. With `isolation` "read_committed" the log ends at the last stable
        offset. Raises UnknownTopicError, UsageError for another negative time, CorruptRecordError,
        MissingFileError.
        """
        log = self.partition(partition)
        if timestamp == LATEST:
            return TimestampOffset(NO_TIMESTAMP, log.end_offset(isolation))
        if timestamp == EARLIEST:
            return TimestampOffset(NO_TIMESTAMP, log.log_start_offset)
        if timestamp < MAX_TIMESTAMP:
            raise UsageError(
                f"timestamp {timestamp} means nothing: allowed are -1 (latest), -2 (earliest), "
                f"-3 (largest timestamp) and milliseconds since 1970"
            )
        # Only these questions need the files: a process that asks others loads no decoder.
        from sparklog.log_reader.find import find_newest, find_timestamp

        if timestamp == MAX_TIMESTAMP:
            found = find_newest(self, partition)
        else:
            found = find_timestamp(self, partition, timestamp)
        return found if found.offset < log.end_offset(isolation) else UNKNOWN_OFFSET

    def opened(self, entry: SegmentEntry) -> "SegmentLog":
        """Return one of the topic's segments; with `kept` its files may be open already."""
        if self._kept is not None:
            return self._kept.opened(self.directory, entry)
        from sparklog.log_reader.opened import opened

        return opened(self.files, self.directory, entry)

    def slices(self, partition: int, start: int, end: int) -> Iterator[Slice]:
        """Return the slices that hold [start, end), in order, each made when it is iterated.

        Raises UnknownTopicError, and OffsetOutOfRangeError if the range is not within the log.
        """
        return self.partition(partition).slices(start, end)
