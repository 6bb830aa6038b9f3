"""Metadata: topics, their partitions, and the instances that lead them.

Every instance serves every partition, so a leader is only advice. The instances lead the partitions
of a topic in turns, so that clients spread its records over all of them. The leader epoch belongs
to the partition. It does not rise when another instance leads, because a client that sees it rise
validates its offsets.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sparklog.errors import ErrorCode, SparklogError
from sparklog.log.names import INTERNAL_TOPICS, topic_name_problem
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import TopicDescription
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.admin.metadata_bodies import MetadataAsked, read_metadata_request
from sparklog.wire.handlers.admin.topics import check_total
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.operations import NO_OPERATIONS, cluster_operations, topic_operations
from sparklog.wire.handlers.partitions import QUICK, step_for
from sparklog.wire.instances import Instance, Leaders, in_racks_of, leaders_of, node_ids_of
from sparklog.wire.protocol.topic_ids import NO_TOPIC_ID, asked_topic
from sparklog.wire.protocol.writing import Writer
from sparklog.wire.security.authorization import DENIED


class _Missing(NamedTuple):
    """A topic that cannot be described, and the reason."""

    name: str | None
    topic_id: bytes
    error_code: int

    @property
    def seen_name(self) -> str | None:
        """The name; None if the client was refused.

        Only otherwise Kafka tells what the client may do (KafkaApis.handleTopicMetadataRequest).
        """
        return None if self.error_code == DENIED[Resource.TOPIC] else self.name


class _ToCreate(NamedTuple):
    """A topic that does not exist yet; the client may create it by asking for it."""

    name: str


_Found = TopicImage | _Missing


async def metadata(call: Call) -> Reply:
    """Return the answer."""
    asked = await call.step(lambda: read_metadata_request(call.reader(), call.version))
    topics = await _topics(call, asked)
    return await step_for(call, _size(topics), lambda: [_written(call, asked, topics)])


def _size(topics: Sequence[_Found]) -> int:
    """Return a measure of an answer: the bytes of a topic are mostly there (`TopicBytes`)."""
    found = (one.description for one in topics if isinstance(one, TopicImage))
    return len(topics) + sum(one.num_partitions for one in found) // QUICK


async def _topics(call: Call, asked: MetadataAsked) -> Sequence[_Found]:
    """Return the topics of the request, or all that the client may see."""
    wanted, image = asked.topics, await call.gateway.image()
    if wanted is None:
        sees_all, topics = _sees_all(call), image.names.values()
        return [_found(image, one) for one in topics if sees_all or call.sees(one.name)]
    known = await call.step(lambda: _known(image, wanted))
    opened = await call.gateway.opened(image, [topic for topic in known if topic is not None])
    if opened is not image:  # a topic may be deleted since, or created
        known = await call.step(lambda: _known(opened, wanted))
    pairs = zip(wanted, known, strict=True)
    found = await call.step(lambda: _all_asked(call, opened, asked, pairs))
    new = [one.name for one in found if isinstance(one, _ToCreate)]
    created = await _created(call, new) if new else {}
    return [created[one.name] if isinstance(one, _ToCreate) else one for one in found]


def _known(image: Image, wanted: Iterable[str | bytes]) -> Sequence[TopicDescription | None]:
    """Return the topics that are requested by name or id; None for each that does not exist."""
    return [asked_topic(image, one) for one in wanted]


def _sees_all(call: Call) -> bool:
    """Return True if the client may see all topics: only a prefix of "" covers this name."""
    return call.sees("")


def _all_asked(
    call: Call,
    image: Image,
    asked: MetadataAsked,
    pairs: Iterable[tuple[str | bytes, TopicDescription | None]],
) -> Sequence[_Found | _ToCreate]:
    """Return the topics that are requested; each is a pair with the topic that exists, or None."""
    sees_all = _sees_all(call)
    return [
        _found(image, known)
        if sees_all and known is not None
        else _asked(call, image, asked, wanted, known)
        for wanted, known in pairs
    ]


def _asked(
    call: Call,
    image: Image,
    asked: MetadataAsked,
    wanted: str | bytes,
    known: TopicDescription | None,
) -> _Found | _ToCreate:
    if isinstance(wanted, bytes):
        if known is None:
            return _Missing(None, wanted, ErrorCode.UNKNOWN_TOPIC_ID)
        if not call.sees(known.name):
            return _Missing(None, wanted, DENIED[Resource.TOPIC])
        return _found(image, known)
    if not call.sees(wanted):
        return _Missing(wanted, NO_TOPIC_ID, DENIED[Resource.TOPIC])
    if known is not None:
        return _found(image, known)
    if topic_name_problem(wanted) is not None:
        return _Missing(wanted, NO_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not (asked.may_create and call.gateway.settings.auto_create_topics_enable):
        return _Missing(wanted, NO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not call.allows(Scope.ADMIN, wanted):
        return _Missing(wanted, NO_TOPIC_ID, DENIED[Resource.TOPIC])
    return _ToCreate(wanted)


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
        else _Missing(name, NO_TOPIC_ID, one.code)
        for name, one in outcomes.items()
    }


def _found(image: Image, topic: TopicDescription) -> TopicImage:
    found = image.topic(topic.topic_id)
    return TopicImage(topic, image.version) if found is None else found


def _written(call: Call, asked: MetadataAsked, topics: Sequence[_Found]) -> bytes:
    version, writer, instances = call.version, call.writer(), call.instances
    if version >= 3:
        writer.int32(0)  # throttle time
    _write_instances(writer, instances, version)
    if version >= 2:
        writer.string(call.gateway.cluster_id)
    if version >= 1:
        writer.int32(instances[0].node_id)
    _write_topics(writer, call, asked, topics, instances)
    if 8 <= version <= 10:
        writer.int32(cluster_operations(call) if asked.has_cluster_operations else NO_OPERATIONS)
    if version >= 13:
        writer.int16(ErrorCode.NONE)
    writer.tags()
    return bytes(writer.data)


def _write_topics(
    writer: Writer,
    call: Call,
    asked: MetadataAsked,
    topics: Sequence[_Found],
    instances: Sequence[Instance],
) -> None:
    """Write topics, led by these instances: those that the answer names."""
    version, kept = call.version, call.gateway.topic_bytes
    end = _topic_end(call, NO_OPERATIONS)
    node_ids, in_racks = node_ids_of(instances), in_racks_of(instances)
    alone = Leaders(node_ids, in_racks) if len(instances) == 1 else None
    writer.array(len(topics))
    for topic in topics:
        if isinstance(topic, _Missing):
            _write_missing(writer, topic, version)
            name = topic.seen_name
        else:
            leaders = alone or leaders_of(topic.description.topic_id, node_ids, in_racks)
            writer.raw(kept.of(topic, leaders, version))
            name = topic.description.name
        if asked.has_topic_operations and name is not None:
            writer.raw(_topic_end(call, topic_operations(call, name)))
        else:
            writer.raw(end)


def _topic_end(call: Call, operations: int) -> bytearray:
    """Return the bytes of a topic behind its partitions."""
    writer = call.writer()
    if call.version >= 8:
        writer.int32(operations)
    writer.tags()
    return writer.data


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
        writer.raw(topic.topic_id)
    if version >= 1:
        writer.boolean(topic.name in INTERNAL_TOPICS)
    writer.array(0)
