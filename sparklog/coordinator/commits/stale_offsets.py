"""Committed offsets of a deleted topic do not apply to a new topic of its name.

Records of commits name topics, not ids. An offset is stale if it was committed before the topic of
this name was made. A broker deletes the offsets together with their topic; here they stay, so that
they are there if the topic is undeleted.

Offsets that a broker's groups have committed are never stale: an import makes younger topics. These
are the offsets in imported topics, and those that are older than __consumer_offsets itself.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommittedOffset
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import TopicDescription, TopicPartition

Offsets = Mapping[TopicPartition, CommittedOffset | None]
NEVER: Final = range(0)


def younger_topics(image: Image, offsets: Offsets) -> list[TopicDescription]:
    """Return the topics that were made after one of their offsets was committed here.

    Offset 0 does not count: it is right for a new topic, too.
    """
    here_ms = _here_ms(image)
    found = {
        topic.name: topic
        for place, offset in offsets.items()
        if offset is not None
        and offset.offset
        and (topic := image.names.get(place.topic)) is not None
        and here_ms <= offset.committed_ms < topic.created_ms
    }
    return list(found.values())


def without_stale(image: Image, younger: Iterable[TopicDescription], offsets: Offsets) -> Offsets:
    """Return the offsets with None in place of each stale one.

    `younger` are the `younger_topics`; the image has opened them.
    """
    topics = filter(None, (image.topic(one.topic_id) for one in younger))
    stale = {topic.description.name: stale_times(image, topic) for topic in topics}
    return {
        place: None
        if offset is not None
        and offset.offset
        and offset.committed_ms in stale.get(place.topic, NEVER)
        else offset
        for place, offset in offsets.items()
    }


def stale_times(image: Image, topic: TopicImage) -> range:
    """Return the times (ms) at which commits were made in older topics of an opened topic's name.

    Empty if the topic is imported.
    """
    if topic.is_imported:
        return NEVER
    return range(_here_ms(image), topic.description.created_ms)


def _here_ms(image: Image) -> int:
    """Return since when (ms) offsets are committed here: older ones come from a broker."""
    topic = image.names.get(OFFSETS_TOPIC)
    return 0 if topic is None else topic.created_ms
