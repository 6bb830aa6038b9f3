"""Metadata: topics, their partitions, and the instances that lead them.

Every instance serves every partition, so a leader is only advice. Rendezvous hashing chooses it by
the topic, so that clients send all records of a topic to one instance. The leader epoch belongs to
the partition. It does not rise when another instance leads, because a client that sees it rise
validates its offsets.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sparklog.errors import ErrorCode, SparklogError
from sparklog.log.names import INTERNAL_TOPICS, topic_name_problem
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import TopicDescription
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.admin.topics import check_total
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.operations import NO_OPERATIONS, cluster_operations, topic_operations
from sparklog.wire.handlers.partitions import QUICK, step_for
from sparklog.wire.instances import Instance, leader_of
from sparklog.wire.protocol.topic_ids import NO_UUID, with_uuid
from sparklog.wire.protocol.writing import Writer
from sparklog.wire.security.authorization import DENIED


class _Missing(NamedTuple):
    """A topic that cannot be described, and the reason."""

    name: str | None
    topic_id: UUID
    error_code: int


class _ToCreate(NamedTuple):
    """A topic that does not exist yet; the client may create it by asking for it."""

    name: str


_Found = TopicImage | _Missing


async def metadata(call: Call) -> Reply:
    """Return the answer."""
    request, wanted = await call.step(lambda: _read(call))
    topics = await _topics(call, request, wanted)
    return await step_for(call, _size(topics), lambda: [_written(call, request, topics)])


def _size(topics: Sequence[_Found]) -> int:
    """Return a measure of an answer: the bytes of a topic are mostly there (`TopicBytes`)."""
    found = (one.description for one in topics if isinstance(one, TopicImage))
    return len(topics) + sum(one.num_partitions for one in found) // QUICK


def _read(call: Call) -> tuple[Any, Sequence[object] | None]:
    """Return the request, and its topics; None for all topics.

    Each topic comes once, as in Kafka: a short request must not have an answer without bound.
    """
    request = call.parsed()
    wanted = request.topics and tuple(dict.fromkeys(request.topics))
    return request, None if call.version == 0 and not wanted else wanted


async def _topics(call: Call, request: object, wanted: Sequence[object] | None) -> Sequence[_Found]:
    """Return the topics of the request, or all that the client may see if `wanted` is None."""
    image = await call.gateway.image()
    if wanted is None:
        return [_found(image, one) for one in image.names.values() if call.sees(one.name)]
    known = await call.step(lambda: [_known(image, one) for one in wanted])
    opened = await call.gateway.opened(image, [topic for topic in known if topic is not None])
    if opened is not image:  # a topic may be deleted since, or created
        known = await call.step(lambda: [_known(opened, one) for one in wanted])
    pairs = zip(wanted, known, strict=True)
    found = await call.step(lambda: [_asked(call, opened, request, *pair) for pair in pairs])
    new = [one.name for one in found if isinstance(one, _ToCreate)]
    created = await _created(call, new) if new else {}
    return [created[one.name] if isinstance(one, _ToCreate) else one for one in found]


def _name_of(wanted: object) -> str | None:
    """Return the name that a topic is requested by; None if it is requested by its id.

    Kafka's Java client sends an empty name with an id (KafkaApis looks at the id alone).
    """
    name: str | None = getattr(wanted, "name", None)
    return name if _id_of(wanted) == NO_UUID else None


def _id_of(wanted: object) -> UUID:
    return getattr(wanted, "topic_id", None) or NO_UUID


def _known(image: Image, wanted: object) -> TopicDescription | None:
    """Return a topic that is requested by name or id; None if there is none."""
    name = _name_of(wanted)
    return with_uuid(image, _id_of(wanted)) if name is None else image.names.get(name)


def _asked(
    call: Call, image: Image, request: object, wanted: object, known: TopicDescription | None
) -> _Found | _ToCreate:
    name = _name_of(wanted)
    if name is None:
        topic_id = _id_of(wanted)
        if known is None:
            return _Missing(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        if not call.sees(known.name):
            return _Missing(None, topic_id, DENIED[Resource.TOPIC])
        return _found(image, known)
    if not call.sees(name):
        return _Missing(name, NO_UUID, DENIED[Resource.TOPIC])
    if known is not None:
        return _found(image, known)
    if topic_name_problem(name) is not None:
        return _Missing(name, NO_UUID, ErrorCode.INVALID_TOPIC_EXCEPTION)
    may_create = getattr(request, "allow_auto_topic_creation", True)
    if not (may_create and call.gateway.settings.auto_create_topics_enable):
        return _Missing(name, NO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not call.allows(Scope.ADMIN, name):
        return _Missing(name, NO_UUID, DENIED[Resource.TOPIC])
    return _ToCreate(name)


async def _created(call: Call, names: Sequence[str]) -> Mapping[str, _Found]:
    """Create topics; all of them have an error if all together have too many partitions."""
    outcomes: Mapping[str, TopicDescription | SparklogError]
    try:
        check_total(len(names) * call.gateway.settings.num_partitions)
        outcomes = await call.gateway.auto_created(names)
    except SparklogError as error:
        outcomes = dict.fromkeys(names, error)
    topics = [one for one in outcomes.values() if isinstance(one, TopicDescription)]
    image = await call.gateway.image(*topics)
    return {
        name: _found(image, one)
        if isinstance(one, TopicDescription)
        else _Missing(name, NO_UUID, one.code)
        for name, one in outcomes.items()
    }


def _found(image: Image, topic: TopicDescription) -> TopicImage:
    found = image.topic(topic.topic_id)
    return TopicImage(topic, image.version) if found is None else found


def _written(call: Call, request: object, topics: Sequence[_Found]) -> bytes:
    version, writer, instances = call.version, call.writer(), call.instances
    if version >= 3:
        writer.int32(0)  # throttle time
    _write_instances(writer, instances, version)
    if version >= 2:
        writer.string(call.gateway.cluster_id)
    if version >= 1:
        writer.int32(instances[0].node_id)
    writer.array(len(topics))
    are_asked = getattr(request, "include_topic_authorized_operations", False)
    for topic in topics:
        operations = NO_OPERATIONS
        if isinstance(topic, _Missing):
            _write_missing(writer, topic, version)
        else:
            leader = leader_of(topic.description.topic_id, instances).node_id
            writer.raw(call.gateway.topic_bytes.of(topic, leader, version))
            if are_asked:
                operations = topic_operations(call, topic.description.name)
        if version >= 8:
            writer.int32(operations)
        writer.tags()
    if 8 <= version <= 10:
        is_asked = getattr(request, "include_cluster_authorized_operations", False)
        writer.int32(cluster_operations(call) if is_asked else NO_OPERATIONS)
    if version >= 13:
        writer.int16(ErrorCode.NONE)
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


def _write_missing(writer: Writer, topic: _Missing, version: int) -> None:
    writer.int16(topic.error_code)
    writer.string(topic.name if version >= 12 else topic.name or "")
    if version >= 10:
        writer.raw(topic.topic_id.bytes)
    if version >= 1:
        writer.boolean(topic.name in INTERNAL_TOPICS)
    writer.array(0)
