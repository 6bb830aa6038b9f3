"""Committed leader epochs that a partition has not had are not told to clients.

An imported group has the epochs of its broker. If the topic came another way (by a mirror, or it
was made anew), the partition's own epoch may be lower. Kafka's consumers take the epoch of an
offset for one that the partition has had, and wait for a leader of at least this epoch: they would
never fetch. Without an epoch they begin at the offset.
"""

from collections.abc import Iterable, Iterator

from sparklog.coordinator.commits.stale_offsets import Offsets
from sparklog.coordinator.requests import NO_EPOCH, CommittedOffset
from sparklog.metadata.state.image import Image
from sparklog.model import TopicDescription, TopicPartition


def topics_with_epochs(image: Image, offsets: Offsets) -> list[TopicDescription]:
    """Return the topics of offsets with a leader epoch. Each partition has had epoch 0."""
    names = {place.topic for place, _ in _with_epochs(offsets)}
    return [image.names[name] for name in names if name in image.names]


def without_strange_epochs(
    image: Image, topics: Iterable[TopicDescription], offsets: Offsets
) -> Offsets:
    """Return the offsets, without the leader epochs that are above those of their partitions.

    `topics` are the `topics_with_epochs`; the image is the newest one, and has opened them.
    """
    found = {topic.name: image.topic(topic.topic_id) for topic in topics}
    strange = {
        place: offset._replace(leader_epoch=NO_EPOCH)
        for place, offset in _with_epochs(offsets)
        if (topic := found.get(place.topic)) is None
        or offset.leader_epoch > topic.partition(place.partition).leader_epoch
    }
    return {**offsets, **strange} if strange else offsets


def _with_epochs(offsets: Offsets) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
    for place, offset in offsets.items():
        if offset is not None and offset.leader_epoch > 0:
            yield place, offset
