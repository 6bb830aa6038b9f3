"""Plans that make, alter, delete and bring back topics: pure functions of an image."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sparklog.errors import (
    InvalidTopicError,
    LateWriterError,
    TopicExistsError,
    UnknownTopicError,
)
from sparklog.log.names import collides
from sparklog.metadata.edit import Done, Edit, TopicEdit
from sparklog.metadata.image import Image
from sparklog.model import TopicDescription


def with_new(image: Image, wanted: Sequence[TopicDescription]) -> Edit:
    """Return the edit that makes new topics."""
    names = set(image.names)
    for topic in wanted:
        if topic.created_ms < image.horizon_ms:
            raise LateWriterError(
                f"topic {topic.name!r}: its creation began before the vacuum horizon "
                f"{image.horizon_ms} (ms), so its directory may be gone: create it again"
            )
        _check_name(topic.name, names)
        names.add(topic.name)
    return _described_edit("CREATE TOPICS", wanted)


def _check_name(wanted: str, names: Iterable[str]) -> None:
    """Refuse a name that a topic has, or one that is the same in metric names."""
    for name in names:
        if wanted == name:
            raise TopicExistsError(f"topic {wanted!r} already exists", topic=wanted)
        if collides(wanted, name):
            raise InvalidTopicError(
                f"topic name {wanted!r} collides with {name!r}: '.' and '_' are the same "
                f"in metric names"
            )


def without(image: Image, topic_ids: Iterable[str], now_ms: int) -> Edit | Done:
    """Return the edit that deletes topics, those that are not deleted yet."""
    found = [
        image.topics[topic_id].description for topic_id in topic_ids if topic_id in image.topics
    ]
    gone = [replace(topic, deleted_ms=now_ms) for topic in found if topic.deleted_ms is None]
    return _described_edit("DELETE TOPICS", gone) if gone else Done()


def restored(image: Image, name: str, topic_id: str | None = None) -> Edit:
    """Return the edit that brings back a deleted topic: the one of an id, or the last deleted.

    Raises UnknownTopicError, TopicExistsError, InvalidTopicError.
    """
    found = [
        topic
        for topic in image.deleted
        if topic.name == name and topic_id in (None, topic.topic_id)
    ]
    _check_name(name, image.names)
    if not found:
        raise UnknownTopicError(
            f"no deleted topic {name!r}{f' of id {topic_id}' if topic_id else ''}: it never was, "
            f"or vacuum has erased it",
            topic=name,
        )
    last = max(found, key=lambda topic: topic.deleted_ms or 0)
    return _described_edit("UNDELETE TOPIC", [replace(last, deleted_ms=None)])


def restorable(image: Image) -> list[TopicDescription]:
    """Return the deleted topics that can come back, by name, those deleted first before."""
    found = [topic for topic in image.deleted if not image.topics[topic.topic_id].is_erased]
    return sorted(found, key=lambda topic: (topic.name, topic.deleted_ms or 0))


def describing(
    operation: str, before: Sequence[TopicDescription], after: Sequence[TopicDescription]
) -> Edit | Done:
    """Return the edit that alters topics, those that change; Done when none does."""
    changed = [new for old, new in zip(before, after, strict=True) if new != old]
    return _described_edit(operation, changed) if changed else Done()


def _described_edit(operation: str, topics: Sequence[TopicDescription]) -> Edit:
    return Edit(
        operation=operation,
        parameters={"topics": ", ".join(topic.name for topic in topics)},
        topics={topic.topic_id: TopicEdit(description=topic) for topic in topics},
    )


def live(image: Image, name: str) -> TopicDescription:
    """Return the topic of a name. Raises UnknownTopicError."""
    topic = image.names.get(name)
    if topic is None:
        raise UnknownTopicError(f"unknown topic {name!r}", topic=name)
    return topic
