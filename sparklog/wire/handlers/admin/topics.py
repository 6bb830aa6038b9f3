"""CreateTopics, DeleteTopics, CreatePartitions.

The storage replicates. Every replication factor from 1 on is accepted, because Kafka's clients
usually ask for 3; the answer says 1. A manual assignment gives the number of partitions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sparklog.admin import NewTopic
from sparklog.config import TopicConfig
from sparklog.errors import ErrorCode
from sparklog.model import TopicDescription
from sparklog.tokens import Scope
from sparklog.wire.configs import SOURCES
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.outcomes import (
    check_admin,
    check_brokers,
    check_values,
    error_fields,
    outcomes,
    refused,
)
from sparklog.wire.protocol.topic_ids import uuid_of

DEFAULT: Final = -1
"""Asks for the default number of partitions or of replicas."""
REPLICAS: Final = 1
PARTITIONS_MAX: Final = 10_000
"""The most partitions that a request may create (ReplicationControlManager)."""
_Asked = tuple[str | None, UUID | None]
"""A topic by name or by id."""


# ----------------------------------------------------------------------------------- CreateTopics


async def create_topics(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    total = await call.step(
        lambda: sum(max(_partition_count(call, one), 0) for one in request.topics)
    )

    def prepare(name: str, given: Any) -> NewTopic:
        check_admin(call, name)
        check_total(total)
        _check_replicas(call, given)
        configs = {one.name: one.value for one in given.configs}
        check_values(configs, ErrorCode.INVALID_CONFIG)
        return NewTopic(name, _partition_count(call, given), configs)

    def create(wanted: dict[str, NewTopic]) -> Sequence[object]:
        each = call.gateway.admin.each
        return each.create_topics(list(wanted.values()), validate_only=request.validate_only)

    entries = [(one.name, one) for one in request.topics]
    found = await outcomes(call, entries, prepare, create, request.timeout)
    topics = found.items()
    # The configs of many topics take seconds.
    return await call.gateway.at_length(
        lambda: call.answer({"topics": [_created(name, one) for name, one in topics]})
    )


def _partition_count(call: Call, given: Any) -> int:
    if given.assignments:
        return len(given.assignments)
    if given.num_partitions == DEFAULT:
        return call.gateway.settings.num_partitions
    return int(given.num_partitions)


def check_total(count: int) -> None:
    """Raise UsageError for more partitions than a request may create."""
    if count > PARTITIONS_MAX:
        raise refused(
            ErrorCode.POLICY_VIOLATION,
            f"a request for {count} partitions: allowed are {PARTITIONS_MAX} or fewer",
        )


def _check_replicas(call: Call, given: Any) -> None:
    factor = given.replication_factor
    if not given.assignments:
        if factor < DEFAULT or factor == 0:
            raise refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {factor}: it is 1 or more, or -1 for the default",
            )
        return
    if factor != DEFAULT or given.num_partitions != DEFAULT:
        raise refused(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment, number of partitions and replication factor are -1",
        )
    if sorted(one.partition_index for one in given.assignments) != [*range(len(given.assignments))]:
        raise refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "a manual assignment names each partition once, from 0 on",
        )
    for one in given.assignments:
        check_brokers(call, one.broker_ids)


def _created(name: str, outcome: object) -> Mapping[str, Any]:
    fields: dict[str, Any] = {"name": name, "configs": (), **error_fields(outcome)}
    if isinstance(outcome, TopicDescription):
        fields["topic_id"] = uuid_of(outcome.topic_id)
        fields["num_partitions"] = outcome.num_partitions
        fields["replication_factor"] = REPLICAS
        fields["configs"] = [
            {"name": one.name, "value": one.value, "config_source": SOURCES[one.source]}
            for one in TopicConfig.parse(outcome.configs).describe()
        ]
    return fields


# ----------------------------------------------------------------------------------- DeleteTopics


async def delete_topics(call: Call) -> Reply:
    """Return the answer."""
    request, admin = await call.request(), call.gateway.admin
    if call.version < 6:
        asked: list[_Asked] = [(one, None) for one in request.topic_names]
    else:
        asked = [(one.name, one.topic_id) for one in request.topics]
    topics = await call.gateway.administer(admin.describe_topics)
    by_name = {one.name: one for one in topics}
    by_id = {uuid_of(one.topic_id): one for one in topics}

    def found_by(name: str | None, uuid: UUID | None) -> TopicDescription | None:
        return by_name.get(name or "") if uuid is None else by_id.get(uuid)

    times = await call.step(
        lambda: Counter(
            topic.topic_id for one in dict.fromkeys(asked) if (topic := found_by(*one)) is not None
        )
    )

    def prepare(key: _Asked, _: None) -> str:
        name, uuid = key
        if (name is None) == (uuid is None):
            raise refused(ErrorCode.INVALID_REQUEST, "a topic needs its name or its id, not both")
        topic = found_by(name, uuid)
        if topic is None and uuid is not None:
            raise refused(ErrorCode.UNKNOWN_TOPIC_ID, f"unknown topic id {uuid}")
        check_admin(call, topic.name if topic else name or "", uuid)
        if topic is None:
            raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"unknown topic {name!r}")
        if times[topic.topic_id] > 1:
            raise refused(ErrorCode.INVALID_REQUEST, "a topic is given by its name and by its id")
        return topic.topic_id

    def delete(wanted: dict[_Asked, str]) -> Sequence[object]:
        return admin.each.delete_topics(list(wanted.values()))

    entries = [(one, None) for one in asked]
    found = await outcomes(call, entries, prepare, delete, request.timeout)

    def answered() -> Reply:
        answers = [_deleted(name, uuid, one) for (name, uuid), one in found.items()]
        return call.answer({"responses": answers})

    return await call.step(answered)


def _deleted(name: str | None, uuid: UUID | None, outcome: object) -> Mapping[str, Any]:
    fields = {"name": name, "topic_id": uuid, **error_fields(outcome)}
    if isinstance(outcome, TopicDescription):
        fields |= {"name": outcome.name, "topic_id": uuid_of(outcome.topic_id)}
    return fields


# ------------------------------------------------------------------------------- CreatePartitions


async def create_partitions(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    topics = (await call.gateway.image()).names
    counts = {name: one.num_partitions for name, one in topics.items()}

    def new_partitions() -> int:
        # Others do not count: the refusal of one's own topic would show how many they have.
        own = [one for one in request.topics if call.allows(Scope.ADMIN, one.name)]
        return sum(max(one.count - counts.get(one.name, one.count), 0) for one in own)

    total = await call.step(new_partitions)

    def prepare(name: str, given: Any) -> int:
        check_admin(call, name)
        check_total(total)
        if given.assignments is not None:
            _check_new_replicas(call, given, counts.get(name))
        return int(given.count)

    def grow(wanted: dict[str, int]) -> Sequence[object]:
        each = call.gateway.admin.each
        return each.create_partitions(wanted, validate_only=request.validate_only)

    entries = [(one.name, one) for one in request.topics]
    found = await outcomes(call, entries, prepare, grow, request.timeout)

    def answered() -> Reply:
        results = [{"name": name, **error_fields(one)} for name, one in found.items()]
        return call.answer({"results": results})

    return await call.step(answered)


def _check_new_replicas(call: Call, given: Any, count: int | None) -> None:
    if count is not None and given.count > count and len(given.assignments) != given.count - count:
        raise refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{given.count - count} new partitions, but replicas of {len(given.assignments)}",
        )
    for one in given.assignments:
        check_brokers(call, one.broker_ids)
