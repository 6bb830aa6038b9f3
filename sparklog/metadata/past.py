"""Topics as of one commit (versionAsOf and timestampAsOf, Delta's names).

A version of the metadata log is a consistent cut over all topics: the history has the offsets where
each partition began and ended then. The records come from today's segments. So a partition can be
read as of a version until its log start offset or its cleaner offset rises; then readers get an
error.
"""

from collections.abc import Collection, Mapping

from immutables import Map

from sparklog.errors import UnknownTopicError, UsageError
from sparklog.metadata.catalog import Catalog, Landed, Write
from sparklog.metadata.history.read import (
    Cut,
    PartitionCut,
    TopicCut,
    check_readable,
    cut_at,
    version_at,
)
from sparklog.metadata.state.edit import OpenTransaction, PartitionState
from sparklog.metadata.state.image import Image, PartitionLog, TopicContent, TopicImage, by_name
from sparklog.model import TopicDescription


class PastCatalog(Catalog):
    """The topics of a log dir as one commit left them. It takes no commits."""

    def __init__(
        self, catalog: Catalog, *, version: int | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Read as of `version`, or as of the newest version that is not later than `timestamp_ms`.

        Raises VersionOutOfRangeError if it is not known (any more), UsageError unless exactly one
        of the two is given.
        """
        super().__init__(catalog.files, catalog.clock)
        self._log = catalog.log
        self._is_log_dir = True
        if (version is None) == (timestamp_ms is None):
            raise UsageError("give a version or a time, versionAsOf or timestampAsOf")
        if timestamp_ms is not None:
            version = version_at(self._log, timestamp_ms)
        self._cut: Cut = cut_at(self._log, version or 0)

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._cut.version

    def topics(self) -> Mapping[str, TopicDescription]:
        """Return the topics that existed, by name, in name order."""
        return by_name(topic.description for topic in self._cut.topics.values())

    def image(self, *topics: TopicDescription) -> Image:
        """Return today's image, with these topics as they were then.

        Raises UnknownTopicError for a topic that was deleted since then, OffsetOutOfRangeError if
        today's segments no longer have all records of the version.
        """
        image = super().image(*topics)
        past = {topic.topic_id: self._as_it_was(image, topic) for topic in topics}
        return image.with_topics(past)

    def commit_all(
        self,
        writes: Collection[Write],
        *,
        operation: str,
        parameters: Mapping[str, str] | None = None,
        patient: bool = False,
        next_producer_id: int | None = None,
    ) -> list[Landed]:
        """Raise UsageError: the past takes no commits."""
        del writes, operation, parameters, patient, next_producer_id
        raise UsageError(f"version {self.version} of the log dir is past: nothing can be written")

    def _as_it_was(self, image: Image, topic: TopicDescription) -> TopicImage:
        cut, today = self._cut.topics.get(topic.topic_id), image.existing(topic.topic_id)
        if cut is None or today is None:
            raise UnknownTopicError(
                f"topic {topic.name!r} as of version {self.version} cannot be read: it was deleted "
                "since",
                topic=topic.name,
            )
        return _cut_off(today, cut, self.version)


def _cut_off(today: TopicImage, cut: TopicCut, version: int) -> TopicImage:
    """Return a topic whose partitions begin and end where they did then."""
    logs = {}
    for number, numbers in cut.partitions.items():
        log = today.partition(number)
        check_readable(numbers, log, version)
        logs[number] = _ended(log, numbers)
    return TopicImage(cut.description, version, TopicContent(Map(logs)))


def _ended(log: PartitionLog, cut: PartitionCut) -> PartitionLog:
    """Return a log as it was; its last segment may reach beyond its end, after a merge."""
    state = PartitionState(
        log_start_offset=cut.log_start_offset,
        log_end_offset=cut.log_end_offset,
        leader_epoch=log.leader_epoch,
        cleaner_offset=cut.cleaner_offset,
        imported_end_offset=log.imported_end_offset,
    )
    is_open = cut.last_stable_offset < cut.log_end_offset
    open_ones = (OpenTransaction(-1, cut.last_stable_offset),) if is_open else ()
    epochs = tuple(one for one in log.epochs if one.start_offset < cut.log_end_offset)
    live = log.live.until(cut.log_end_offset)
    return PartitionLog(log.name, log.partition, state, live, open_ones, epochs)
