"""The image: all metadata of a log dir as of one version, and `apply`, which makes the next image.

    image.apply(edits, stamp) -> image       pure; its cost grows only with the edits

Consecutive images share structure: an entry replaces only the topics and partitions that it names.
`Image.topic(id).partition(p)` is a **PartitionLog**, the object of one partition (Kafka's
UnifiedLog).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from immutables import Map

from sparklog.errors import UsageError
from sparklog.metadata.state.cluster import Broker, ScramCredential, UserKey
from sparklog.metadata.state.edit import (
    NO_FOLD,
    NO_STAMP,
    Edit,
    FoldEdit,
    Lease,
    LogVersion,
    Stamp,
)
from sparklog.metadata.state.partition_log import PartitionLog, Slice
from sparklog.metadata.state.topic_image import (
    Removal,
    TopicContent,
    TopicImage,
    added_ranges,
    at_log_end,
    shared_slices,
)
from sparklog.metadata.state.transactions import (
    NO_TRANSACTIONAL_IDS,
    TransactionalId,
    TransactionalIds,
)
from sparklog.model import TopicDescription

__all__ = [
    "Image",
    "PartitionLog",
    "Removal",
    "SharedSegmentState",
    "Slice",
    "TopicContent",
    "TopicImage",
    "added_ranges",
    "at_log_end",
    "shared_slices",
]


K = TypeVar("K")
V = TypeVar("V")


class SharedSegmentState(NamedTuple):
    """How many live slices a shared segment has; `unused_ms` is when it lost the last, or None."""

    slice_count: int
    unused_ms: int | None = None


class Directory:
    """The topics by name, sorted at first use. Images with equal descriptions share a Directory."""

    def __init__(self, topics: Map[str, TopicImage]) -> None:
        self._topics: Map[str, TopicImage] | list[TopicDescription] = topics

    @cached_property
    def names(self) -> Mapping[str, TopicDescription]:
        """The topics that exist, by name, in name order."""
        return by_name(self._descriptions)

    @cached_property
    def deleted(self) -> Sequence[TopicDescription]:
        """The deleted topics whose files may still be there."""
        return [topic for topic in self._descriptions if topic.deleted_ms is not None]

    @property
    def _descriptions(self) -> list[TopicDescription]:
        """All topics. With the first call the images of that time, with their segments, go."""
        found = self._topics
        if isinstance(found, Map):
            found = self._topics = [topic.description for topic in found.values()]
        return found


def by_name(topics: Iterable[TopicDescription]) -> dict[str, TopicDescription]:
    """Return the topics that are not deleted, by name, in name order."""
    alive = [topic for topic in topics if topic.deleted_ms is None]
    return {topic.name: topic for topic in sorted(alive, key=lambda topic: topic.name)}


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """The metadata of a log dir as of one version. It is immutable."""

    stamp: Stamp = NO_STAMP
    topics: Map[str, TopicImage] = Map()
    leases: Map[str, Lease] = Map()
    shared: Map[str, SharedSegmentState] = Map()
    horizon_ms: int = 0
    level: int = 1
    fold: FoldEdit = NO_FOLD
    directory: Directory = field(default_factory=lambda: Directory(Map()), repr=False)
    next_producer_id: int = 0
    brokers: Map[int, Broker] = Map()
    users: Map[UserKey, ScramCredential] = Map()
    transactional_ids: TransactionalIds = NO_TRANSACTIONAL_IDS
    ended_logs: tuple[LogVersion, ...] = ()
    """The incarnations before this one, oldest first, each with its last version in this log."""

    @property
    def version(self) -> int:
        """The version of the entry that was applied last; -1 before the first."""
        return self.stamp.version

    def not_before(self, wall_ms: int) -> int:
        """Return a time (ms), but at least that of the image's entry.

        The clocks of machines differ: a time that others compare must not be before this image.
        """
        return max(wall_ms, self.stamp.timestamp_ms)

    def next_ms(self, wall_ms: int) -> int:
        """Return the time (ms) of the next entry: by the clock, but if it is behind, 1 ms later.

        So a topic that is made anew while the clock is behind is later than the offsets that were
        committed in the topic before.
        """
        last_ms = self.stamp.timestamp_ms
        return wall_ms if wall_ms >= last_ms else last_ms + 1

    @property
    def names(self) -> Mapping[str, TopicDescription]:
        """The topics that exist, by name, in name order."""
        return self.directory.names

    @property
    def deleted(self) -> Sequence[TopicDescription]:
        """The deleted topics whose files may still be there."""
        return self.directory.deleted

    def topic(self, topic_id: str) -> TopicImage | None:
        """Return a topic, deleted or not; None if there is none of this id (any more)."""
        return self.topics.get(topic_id)

    def existing(self, topic_id: str) -> TopicImage | None:
        """Return a topic that is not deleted; None if there is none of this id."""
        topic = self.topics.get(topic_id)
        return None if topic is None or topic.deleted_ms is not None else topic

    def with_topics(self, topics: Mapping[str, TopicImage]) -> "Image":
        """Return the image with topics that were opened; their descriptions do not change."""
        return replace(self, topics=self.topics.update(topics))

    def with_ids(
        self, ids: Mapping[str, TransactionalId | None], next_producer_id: int | None
    ) -> "Image":
        """Return the image with changed transactional ids, and everything else as it is."""
        return replace(
            self,
            transactional_ids=self.transactional_ids.after(ids, self.stamp.timestamp_ms),
            next_producer_id=max(self.next_producer_id, next_producer_id or 0),
        )

    def apply(self, edits: Iterable[Edit], stamp: Stamp) -> "Image":
        """Return the image after one entry, whose edits apply one after another.

        Raises UsageError for an edit of a topic that neither exists nor is made by the edit,
        CorruptMetadataError for one that adds to a transaction that is not open.
        """
        image = self
        for edit in edits:
            image = _after(image, edit, stamp)
        return replace(self, stamp=stamp) if image is self else image


def _after(image: Image, edit: Edit, stamp: Stamp) -> Image:
    """Return the image after one edit of an entry."""
    topics = _topics_after(image, edit, stamp)
    renames = edit.forget_topics or any(one.description for one in edit.topics.values())
    if edit.fold is not None:
        topics = _without_folded(topics, edit.fold.cover)
    return Image(
        stamp=stamp,
        topics=topics,
        leases=_updated(image.leases, edit.leases),
        shared=_shared_after(image.shared, edit, stamp),
        horizon_ms=_grown(image.horizon_ms, edit.horizon_ms),
        level=_grown(image.level, edit.level),
        fold=edit.fold or image.fold,
        directory=Directory(topics) if renames else image.directory,
        next_producer_id=_grown(image.next_producer_id, edit.next_producer_id),
        brokers=_updated(image.brokers, edit.brokers),
        users=_updated(image.users, edit.users),
        transactional_ids=image.transactional_ids.after(
            edit.transactional_ids, stamp.timestamp_ms, edit.added_to_transactions
        ),
        ended_logs=_ended(image.ended_logs, edit, stamp),
    )


def _grown(known: int, given: int | None) -> int:
    return known if given is None else max(known, given)


def _ended(known: tuple[LogVersion, ...], edit: Edit, stamp: Stamp) -> tuple[LogVersion, ...]:
    if edit.ended_log is None:
        return known
    return (*known, LogVersion(edit.ended_log, stamp.version - 1))


def _topics_after(image: Image, edit: Edit, stamp: Stamp) -> Map[str, TopicImage]:
    topics = image.topics.mutate()
    for topic_id, of_topic in edit.topics.items():
        known = topics.get(topic_id)
        if known is None:
            if of_topic.description is None:
                raise UsageError(f"an edit of a topic that does not exist: {topic_id}")
            known = TopicImage(of_topic.description, stamp.version)
        topics[topic_id] = known.apply(of_topic, stamp)
    for topic_id in edit.forget_topics:
        topics.pop(topic_id, None)
    return topics.finish()


def _without_folded(topics: Map[str, TopicImage], cover: int) -> Map[str, TopicImage]:
    """Return the topics without the waiting edits that a fold covers."""
    shorter = topics.mutate()
    for topic_id, topic in topics.items():
        if not topic.is_open and topic.waiting and topic.waiting[0][1].version <= cover:
            shorter[topic_id] = topic.without_folded(cover)
    return shorter.finish()


def _updated(known: Map[K, V], changes: Mapping[K, V | None]) -> Map[K, V]:
    """Return a map after changes; None removes a key."""
    if not changes:
        return known
    for key, value in changes.items():
        if value is not None:
            known = known.set(key, value)
        elif key in known:
            known = known.delete(key)
    return known


def _shared_after(
    shared: Map[str, SharedSegmentState], edit: Edit, stamp: Stamp
) -> Map[str, SharedSegmentState]:
    """Return the counts of slices after an edit: of all its topics at once, added ones first."""
    topics = edit.topics.values()
    added = Counter([one.log_path for of in topics for one in of.segments if one.is_shared])
    for path, count in added.items():
        known = shared.get(path)
        shared = shared.set(path, SharedSegmentState(known.slice_count + count if known else count))
    removed = Counter(
        [key.log_path for of in topics for key in of.remove if key.log_path in shared]
    )
    for path, count in removed.items():
        left = shared[path].slice_count - count
        shared = shared.set(path, SharedSegmentState(left, None if left else stamp.timestamp_ms))
    for path in edit.forget_shared:
        if path in shared:
            shared = shared.delete(path)
    return shared
