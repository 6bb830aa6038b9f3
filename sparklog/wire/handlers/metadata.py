"""Metadata: topics, their partitions, and the instances that lead them.

Every instance serves every partition. A leader is advice: the instance that rendezvous hashing
gives a topic, so that a topic's records meet in one place. The leader epoch is the partition's; it
does not rise when another instance leads (a client that sees it rise validates its offsets).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from sparklog.errors import ErrorCode, SparklogError
from sparklog.log.names import topic_name_problem
from sparklog.metadata.image import Image, TopicImage
from sparklog.model import TopicDescription
from sparklog.tokens import Resource, Scope
from sparklog.wire.authorization import DENIED
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.operations import NO_OPERATIONS, cluster_operations, topic_operations
from sparklog.wire.instances import Instance, leader_of
from sparklog.wire.topic_ids import NO_UUID, uuid_of, with_uuid
from sparklog.wire.writing import Writer

NONE: Final = 0
NO_EPOCH: Final = -1
"""The leader epoch of a partition whose topic was not opened yet: clients then check nothing."""
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""The names that clients take for a broker's own topics (Topic.INTERNAL_TOPICS)."""


class _Topic(NamedTuple):
    """A topic as it is answered; without a description, why there is none."""

    name: str | None
    topic_id: UUID
    description: TopicDescription | None
    error_code: int = NONE
    image: TopicImage | None = None


async def metadata(call: Call) -> Reply:
    """Return the answer."""
    request = call.request()
    image = await call.gateway.image()
    wanted = request.topics
    named = [image.names[one.name] for one in wanted or () if one.name in image.names]
    image = await call.gateway.image(*named)
    if wanted is None or (call.version == 0 and not wanted):
        topics = [_found(image, one) for one in image.names.values() if call.sees(one.name)]
    else:
        topics = [await _asked(call, image, request, one) for one in wanted]
    return [_written(call, request, topics)]


async def _asked(call: Call, image: Image, request: object, wanted: object) -> _Topic:
    name: str | None = getattr(wanted, "name", None)
    if name is None:
        topic_id: UUID = getattr(wanted, "topic_id", None) or NO_UUID
        known = with_uuid(image, topic_id)
        if known is None:
            return _Topic(None, topic_id, None, ErrorCode.UNKNOWN_TOPIC_ID)
        if not call.sees(known.name):
            return _Topic(None, topic_id, None, DENIED[Resource.TOPIC])
        return _found(image, known)
    if not call.sees(name):
        return _Topic(name, NO_UUID, None, DENIED[Resource.TOPIC])
    known = image.names.get(name)
    if known is not None:
        return _found(image, known)
    if topic_name_problem(name) is not None:
        return _Topic(name, NO_UUID, None, ErrorCode.INVALID_TOPIC_EXCEPTION)
    may_create = getattr(request, "allow_auto_topic_creation", True)
    if not (may_create and call.gateway.settings.auto_create_topics_enable):
        return _Topic(name, NO_UUID, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not call.allows(Scope.ADMIN, name):
        return _Topic(name, NO_UUID, None, DENIED[Resource.TOPIC])
    try:
        created = await call.gateway.create_topic(name)
    except SparklogError as error:
        return _Topic(name, NO_UUID, None, error.code)
    return _found(await call.gateway.image(created), created)


def _found(image: Image, topic: TopicDescription) -> _Topic:
    return _Topic(topic.name, uuid_of(topic.topic_id), topic, image=image.topic(topic.topic_id))


def _written(call: Call, request: object, topics: Sequence[_Topic]) -> bytes:
    version, writer = call.version, call.writer()
    listener = call.session.listener.name
    instances = [one.at(listener) for one in call.gateway.instances.alive]
    if version >= 3:
        writer.int32(0)  # throttle time
    _write_instances(writer, instances, version)
    if version >= 2:
        writer.string(call.gateway.cluster_id)
    if version >= 1:
        writer.int32(min(one.node_id for one in instances))
    writer.array(len(topics))
    are_asked = getattr(request, "include_topic_authorized_operations", False)
    for topic in topics:
        _write_topic(writer, topic, instances, version)
        if version >= 8:
            is_told = are_asked and topic.description is not None
            writer.int32(topic_operations(call, topic.name or "") if is_told else NO_OPERATIONS)
        writer.tags()
    if 8 <= version <= 10:
        is_asked = getattr(request, "include_cluster_authorized_operations", False)
        writer.int32(cluster_operations(call) if is_asked else NO_OPERATIONS)
    if version >= 13:
        writer.int16(NONE)
    writer.tags()
    return bytes(writer.data)


def _write_instances(writer: Writer, instances: Sequence[Instance], version: int) -> None:
    writer.array(len(instances))
    for one in instances:
        writer.int32(one.node_id)
        writer.string(one.host)
        writer.int32(one.port)
        if version >= 1:
            writer.string(one.rack)
        writer.tags()


def _write_topic(
    writer: Writer, topic: _Topic, instances: Sequence[Instance], version: int
) -> None:
    writer.int16(topic.error_code)
    writer.string(topic.name if version >= 12 else topic.name or "")
    if version >= 10:
        writer.raw(topic.topic_id.bytes)
    if version >= 1:
        writer.boolean(topic.name in INTERNAL)
    count = 0 if topic.description is None else topic.description.num_partitions
    writer.array(count)
    if topic.description is not None:
        opened = topic.image if topic.image is not None and topic.image.is_open else None
        leader = leader_of(topic.description.topic_id, instances).node_id
        for partition in range(count):
            epoch = NO_EPOCH if opened is None else opened.partition(partition).leader_epoch
            _write_partition(writer, partition, leader, epoch, version)


def _write_partition(writer: Writer, partition: int, leader: int, epoch: int, version: int) -> None:
    writer.int16(NONE)
    writer.int32(partition)
    writer.int32(leader)
    if version >= 7:
        writer.int32(epoch)
    for _ in ("replicas", "in-sync replicas"):
        writer.array(1)
        writer.int32(leader)
    if version >= 5:
        writer.array(0)  # offline replicas
    writer.tags()
