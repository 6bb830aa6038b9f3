"""Plans that make, alter, delete and bring back topics: pure functions of an image."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sparklog.errors import (
    InvalidTopicError,
    LateWriterError,
    TopicExistsError,
    UnknownTopicError,
)
from sparklog.log.names import metric_name
from sparklog.metadata.state import told
from sparklog.metadata.state.edit import Done, Edit, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import TopicDescription


class NewNames:
    """The names that new topics may not have: those of an image, and those taken since then."""

    def __init__(self, image: Image) -> None:
        self._horizon_ms = image.horizon_ms
        self._taken = {metric_name(name): name for name in image.names}

    def take(self, topic: TopicDescription) -> TopicDescription:
        """Take the name of a new topic; return the topic.

        Raises LateWriterError, TopicExistsError, InvalidTopicError.
        """
        if topic.created_ms < self._horizon_ms:
            raise LateWriterError(
                f"topic {topic.name!r}: its creation began before the vacuum horizon "
                f"{self._horizon_ms} (ms), so its directory may be gone: create it again; this "
                f"machine's clock said {topic.created_ms}: if that was long ago, set the clock"
            )
        self.check(topic.name)
        self._taken[metric_name(topic.name)] = topic.name
        return topic

    def check(self, wanted: str) -> None:
        """Refuse a name that a topic has, and a name whose metric name a topic has."""
        name = self._taken.get(metric_name(wanted))
        if wanted == name:
            raise TopicExistsError(f"topic {wanted!r} already exists", topic=wanted)
        if name is not None:
            raise InvalidTopicError(
                f"topic name {wanted!r} collides with {name!r}: '.' and '_' are the same "
                f"in metric names"
            )


def with_new(image: Image, wanted: Sequence[TopicDescription]) -> Edit:
    """Return the edit that makes new topics; raises as `NewNames.take` does."""
    names = NewNames(image)
    return described_edit("CREATE TOPICS", [names.take(topic) for topic in wanted])


def without(image: Image, topic_ids: Iterable[str], now_ms: int) -> Edit | Done:
    """Return the edit that deletes the topics that are not deleted yet; Done if there are none."""
    found = [
        image.topics[topic_id].description for topic_id in topic_ids if topic_id in image.topics
    ]
    deleted_ms = image.not_before(now_ms)
    gone = [replace(topic, deleted_ms=deleted_ms) for topic in found if topic.deleted_ms is None]
    return described_edit("DELETE TOPICS", gone, found, image) if gone else Done()


def restored(image: Image, name: str, topic_id: str | None = None) -> Edit:
    """Return the edit that brings back a deleted topic: that of an id, or the one deleted last.

    `transactions.undelete` adds the ends of the transactions that have left the topic.

    Raises UnknownTopicError, TopicExistsError, InvalidTopicError.
    """
    found = [
        topic
        for topic in image.deleted
        if topic.name == name and topic_id in (None, topic.topic_id)
    ]
    NewNames(image).check(name)
    if not found:
        raise UnknownTopicError(
            f"no deleted topic {name!r}{f' of id {topic_id}' if topic_id else ''}: there was none, "
            f"or vacuum has erased it",
            topic=name,
        )
    last = max(found, key=lambda topic: topic.deleted_ms or 0)
    return described_edit("UNDELETE TOPIC", [replace(last, deleted_ms=None)], [last])


def restorable(image: Image) -> list[TopicDescription]:
    """Return the deleted topics that can come back, by name and then by time of deletion."""
    found = [topic for topic in image.deleted if not image.topics[topic.topic_id].is_erased]
    return sorted(found, key=lambda topic: (topic.name, topic.deleted_ms or 0))


def describing(
    operation: str, before: Sequence[TopicDescription], after: Sequence[TopicDescription]
) -> Edit | Done:
    """Return the edit that alters the topics that change; Done if none changes."""
    changed = [new for old, new in zip(before, after, strict=True) if new != old]
    return described_edit(operation, changed, before) if changed else Done()


def described_edit(
    operation: str,
    topics: Sequence[TopicDescription],
    before: Iterable[TopicDescription] = (),
    image: Image | None = None,
) -> Edit:
    """Return the edit that makes topics, or gives those of `before` new descriptions.

    Topics that it deletes leave the open transactions of `image`.
    """
    gone = {topic.topic_id: topic.name for topic in topics if topic.deleted_ms is not None}
    ids = image.transactional_ids.open.values() if image is not None and gone else ()
    left = [one.without_topics(gone) for one in ids]
    return Edit(
        operation=operation,
        parameters={
            "topics": ", ".join(topic.name for topic in topics),
            **told.changes({one.topic_id: one for one in before}, topics),
        },
        topics={topic.topic_id: TopicEdit(description=topic) for topic in topics},
        transactional_ids={one.transactional_id: one for one in left if one is not None},
    )


def unknown_topic(name: str) -> UnknownTopicError:
    """Return the error for a name that no topic has; its message names no other topic."""
    return UnknownTopicError(f"unknown topic {name!r}", topic=name)


def live(image: Image, name: str) -> TopicDescription:
    """Return the topic of a name. Raises UnknownTopicError."""
    topic = image.names.get(name)
    if topic is None:
        raise unknown_topic(name)
    return topic


def live_topic(image: Image, topic_id: str) -> TopicImage:
    """Return the topic of an id. Raises UnknownTopicError if it is deleted or unknown."""
    topic = image.existing(topic_id)
    if topic is None:
        raise UnknownTopicError(f"unknown topic id {topic_id}", topic_id=topic_id)
    return topic


def live_of_id(image: Image, topic_id: str) -> TopicDescription:
    """Return the description of the topic of an id. Raises as `live_topic`."""
    return live_topic(image, topic_id).description
