"""TopicBytes: the bytes of topics in answers to Metadata, cached until a value in them changes.

    int16 error code, string name, uuid id (v10), bool is internal (v1), array of partitions
    partition   int16 error code, int32 number, int32 leader, int32 leader epoch (v7),
                array of int32 replicas, of those in sync, of those offline (v5), tags (v9)

A commit makes a new image of the topics that it changes, but hardly ever a new leader epoch. So the
bytes of a topic are kept as long as the values in them are the same, also for newer images. No
field depends on the client. The cache keeps no image alive: an old one has all segments of the
topic, and the topic may be deleted since.
"""

import struct
import weakref
from itertools import cycle
from threading import Lock
from typing import Final, NamedTuple

from sparklog.log.names import INTERNAL_TOPICS
from sparklog.metadata.state.image import TopicImage
from sparklog.model import TopicDescription
from sparklog.wire.instances import Leaders
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.writing import Writer

NO_EPOCH: Final = -1
"""The leader epoch of a partition whose topic is not opened yet: clients then check nothing."""
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most bytes that the cache takes; when it takes more, it is emptied."""
ENTRY_BYTES: Final = 512
"""About how many bytes an entry of the cache takes besides the bytes of its topic."""

_WITHOUT_EPOCH: Final = struct.Struct(">hii")
"""The first fields of a partition: error code, number, leader."""
_WITH_EPOCH: Final = struct.Struct(">hiii")
"""The same and, from version 7 on, the leader epoch."""

Epochs = dict[int, int] | None
"""The leader epochs that are not 0, by partition; None if the image has not opened the topic."""


class _Kept(NamedTuple):
    image: "weakref.ref[TopicImage]"
    description: TopicDescription
    epochs: Epochs
    leaders: Leaders
    data: bytes


class TopicBytes:
    """The bytes of topics. For several threads at once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._kept_bytes = 0
        self._keeping = Lock()

    def of(self, topic: TopicImage, leaders: Leaders, version: int) -> bytes:
        """Return a topic's bytes in a version, from the error code to the last partition."""
        key = topic.description.topic_id, version
        known = self._kept.get(key)
        if known is not None and known.image() is topic and known.leaders == leaders:
            return known.data
        with self._keeping:
            return self._made(topic, leaders, version)

    def _made(self, topic: TopicImage, leaders: Leaders, version: int) -> bytes:
        key = topic.description.topic_id, version
        known, epochs = self._kept.get(key), _epochs(topic)
        before = None if known is None else known[1:4]
        if known is not None and before == (topic.description, epochs, leaders):
            data = known.data
        else:
            data = _written(topic.description, epochs, leaders, version)
            self._kept_bytes += _size(data) - (0 if known is None else _size(known.data))
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._kept, self._kept_bytes = {}, _size(data)
        self._kept[key] = _Kept(weakref.ref(topic), topic.description, epochs, leaders, data)
        return data


def _size(data: bytes) -> int:
    return ENTRY_BYTES + len(data)


def _epochs(topic: TopicImage) -> Epochs:
    if not topic.is_open:
        return None
    logs = topic.partitions.items()
    return {number: log.leader_epoch for number, log in logs if log.leader_epoch}


def _written(topic: TopicDescription, epochs: Epochs, leaders: Leaders, version: int) -> bytes:
    writer = Writer(is_flexible=version >= 9)
    writer.int16(0)
    writer.string(topic.name)
    if version >= 10:
        writer.raw(uuid_of(topic.topic_id).bytes)
    if version >= 1:
        writer.boolean(topic.name in INTERNAL_TOPICS)
    writer.array(topic.num_partitions)
    usual = NO_EPOCH if epochs is None else 0
    pack = (_WITH_EPOCH if version >= 7 else _WITHOUT_EPOCH).pack
    ends = [
        (leader, _partition_end(leaders.replicas(turn), version))
        for turn, leader in enumerate(leaders.node_ids)
    ]
    for number, (leader, end) in zip(range(topic.num_partitions), cycle(ends), strict=False):
        epoch = (epochs.get(number, usual) if epochs else usual,) if version >= 7 else ()
        writer.raw(pack(0, number, leader, *epoch) + end)
    return bytes(writer.data)


def _partition_end(replicas: tuple[int, ...], version: int) -> bytes:
    """Return the bytes of a partition behind its leader: replicas, those in sync, none offline."""
    writer = Writer(is_flexible=version >= 9)
    for _ in range(2):
        writer.array(len(replicas))
        for one in replicas:
            writer.int32(one)
    if version >= 5:
        writer.array(0)
    writer.tags()
    return bytes(writer.data)
