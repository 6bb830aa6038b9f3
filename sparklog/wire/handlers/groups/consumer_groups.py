"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import uuid4

from sparklog.coordinator.assignors import Partitions
from sparklog.coordinator.consumer.consumer_records import by_topic
from sparklog.coordinator.requests import (
    NONE,
    ConsumerAnswer,
    ConsumerDescribeRequest,
    ConsumerHeartbeat,
    DescribedConsumer,
    DescribeRequest,
)
from sparklog.errors import ErrorCode
from sparklog.metadata.state.image import Image
from sparklog.tokens import Resource, Scope
from sparklog.wire.each import each
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.groups.group_admin import tell_operations, why_missing
from sparklog.wire.handlers.groups.group_members import ask_coordinator, client_host, milliseconds
from sparklog.wire.handlers.operations import NO_OPERATIONS
from sparklog.wire.protocol.topic_ids import NO_TOPIC_ID, topic_id_of, uuid_of

CLIENT_MAKES_ID_SINCE: Final = 1
"""The first version of ConsumerGroupHeartbeat in which clients make their member ids (KIP-1082)."""
CONSUMER_PROTOCOL: Final = 1
"""The member type of ConsumerGroupDescribe: classic members are 0, and are in other groups here."""
HIDDEN_TOPICS: Final = "the group reads topics that the client may not see"

Fields = dict[str, Any]


async def consumer_group_heartbeat(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    names = request.subscribed_topic_names
    if not call.allows(Scope.READ, request.group_id, Resource.GROUP):
        return call.answer({"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED})
    if not await call.step(lambda: all(map(call.sees, names or ()))):
        return call.answer({"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    read = await call.step(lambda: (_names(names), _owned(request.topic_partitions)))
    # The image comes last: a request that has waited with an older one would undo an assignment.
    image = await call.gateway.image()
    heartbeat = _heartbeat(call, request, *read, image)
    answer = await ask_coordinator(call, heartbeat, request.group_id)
    if isinstance(answer, int):
        answer = ConsumerAnswer(answer)
    places = answer.assignment
    return call.answer(
        {
            "error_code": answer.error_code,
            "error_message": answer.message,
            "member_id": answer.member_id or None,
            "member_epoch": answer.epoch,
            "heartbeat_interval": answer.interval_ms,
            "assignment": None if places is None else {"topic_partitions": _assigned(places)},
        }
    )


def _heartbeat(
    call: Call,
    request: Any,
    names: tuple[str, ...] | None,
    owned: Partitions | None,
    image: Image,
) -> ConsumerHeartbeat:
    member_id = request.member_id
    if not member_id and call.version < CLIENT_MAKES_ID_SINCE and request.member_epoch == 0:
        member_id = str(uuid4())
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.header.client_id or "",
        client_host=client_host(call),
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topic_names=names,
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=owned,
        topics=image.names,
        may_read=call.sees,
    )


def _names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(set(names)))


def _owned(topics: Iterable[Any] | None) -> Partitions | None:
    if topics is None:
        return None
    found = (
        (one.topic_id.bytes if one.topic_id else NO_TOPIC_ID, one.partitions) for one in topics
    )
    pairs = ((topic_id_of(id_bytes), numbers) for id_bytes, numbers in found)
    return frozenset((topic_id, number) for topic_id, numbers in pairs for number in numbers)


def _assigned(places: Partitions) -> list[Fields]:
    return [{"topic_id": uuid_of(one), "partitions": numbers} for one, numbers in by_topic(places)]


async def consumer_group_describe(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    groups = await each(request.group_ids, lambda group_id: _described(call, group_id))

    def answered() -> Reply:
        if request.include_authorized_operations:
            tell_operations(call, groups)
        return call.answer({"groups": groups})

    # A group may have a hundred thousand partitions.
    return await call.gateway.beside(answered)


async def _described(call: Call, group_id: str) -> Fields:
    fields: Fields = {"group_id": group_id, "authorized_operations": NO_OPERATIONS}
    if not call.sees(group_id, Resource.GROUP):
        return {**fields, "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    found = await ask_coordinator(call, ConsumerDescribeRequest(group_id), group_id)
    if found is None:
        message = await why_missing(call, group_id, DescribeRequest(group_id), "consumer")
        code = ErrorCode.GROUP_ID_NOT_FOUND
        return {**fields, "error_code": code, "error_message": message}
    if isinstance(found, int):
        return {**fields, "error_code": found}
    image = await call.gateway.image()

    def told() -> Fields:
        names = {topic.topic_id: name for name, topic in image.names.items()}
        members = [_member(names, one) for one in found.members]
        if not all(map(call.sees, _topics_of(members))):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return {**fields, "error_code": code, "error_message": HIDDEN_TOPICS}
        return {
            **fields,
            "error_code": NONE,
            "group_state": found.state,
            "group_epoch": found.epoch,
            "assignment_epoch": found.target_epoch,
            "assignor_name": found.assignor,
            "members": members,
        }

    return await call.gateway.beside(told)


def _member(names: Mapping[str, str], member: DescribedConsumer) -> Fields:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topic_names,
        "subscribed_topic_regex": member.topic_regex,
        "assignment": {"topic_partitions": _named(names, member.assigned)},
        "target_assignment": {"topic_partitions": _named(names, member.target)},
        "member_type": CONSUMER_PROTOCOL,
    }


def _topics_of(members: Iterable[Fields]) -> set[str]:
    """Return the names of the topics in the members' assignments."""
    assignments = [one[key] for one in members for key in ("assignment", "target_assignment")]
    return {topic["topic_name"] for one in assignments for topic in one["topic_partitions"]}


def _named(names: Mapping[str, str], places: Partitions) -> list[Fields]:
    """Return partitions by topic, with the names by id. Topics that are gone are left out."""
    return [
        {"topic_id": uuid_of(one), "topic_name": names[one], "partitions": numbers}
        for one, numbers in by_topic(places)
        if one in names
    ]
