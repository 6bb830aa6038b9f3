"""FindCoordinator, DescribeGroups, ListGroups."""

from collections.abc import Iterable
from typing import Any, Final

from sparklog.coordinator.requests import ConsumerDescribeRequest, DescribeRequest, Request
from sparklog.coordinator.states import State
from sparklog.errors import ErrorCode, SparklogError
from sparklog.tokens import Resource
from sparklog.wire.each import each
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.groups.group_members import ask_coordinator
from sparklog.wire.handlers.operations import NO_OPERATIONS, group_operations
from sparklog.wire.handlers.partitions import step_for
from sparklog.wire.instances import Instance, leader_of

GROUP: Final = 0
TRANSACTION: Final = 1
"""Key types: a group, and a transactional id."""
BATCHED_SINCE: Final = 4
"""The first version of FindCoordinator with several keys (KIP-699)."""
NOT_FOUND_SINCE: Final = 6
"""The first version of DescribeGroups that returns GROUP_ID_NOT_FOUND (KIP-1043)."""

Fields = dict[str, Any]


async def find_coordinator(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    key_type = getattr(request, "key_type", GROUP)
    if call.version >= BATCHED_SINCE:
        keys = request.coordinator_keys
        found = await each(keys, lambda key: _coordinator(call, key, key_type))
        return await call.step(lambda: call.answer({"coordinators": found}))
    return call.answer(await _coordinator(call, request.key, key_type))


async def _coordinator(call: Call, key: str, key_type: int) -> Fields:
    if key_type == TRANSACTION:
        return _any_instance(call, key)
    if key_type != GROUP:
        message = f"key type {key_type}: allowed are 0 and 1"
        return _no_coordinator(key, ErrorCode.INVALID_REQUEST, message)
    if not call.sees(key, Resource.GROUP):
        return _no_coordinator(key, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    try:
        owner = await call.gateway.coordinators.coordinator_of(key)
    except SparklogError as error:
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    listener = call.session.listener.name
    found = owner.at(listener)
    if found is None:
        message = f"the coordinator, instance {owner.node_id}, has no listener {listener}"
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    return _told(key, found)


def _any_instance(call: Call, key: str) -> Fields:
    """Return an instance for a transactional id. Every instance serves every id.

    Each id gets one by rendezvous hashing, so that the instances share the work.
    """
    if not call.sees(key, Resource.TRANSACTIONAL_ID):
        return _no_coordinator(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    return _told(key, leader_of(f"transaction {key}", call.instances))


def _told(key: str, found: Instance) -> Fields:
    return {
        "key": key,
        "error_code": ErrorCode.NONE,
        "node_id": found.node_id,
        "host": found.host,
        "port": found.port,
    }


def _no_coordinator(key: str, code: int, message: str | None) -> Fields:
    return {
        "key": key,
        "error_code": code,
        "error_message": message,
        "node_id": -1,
        "host": "",
        "port": -1,
    }


async def describe_groups(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    told = await each(request.groups, lambda one: _described(call, one))

    def answered() -> Reply:
        if getattr(request, "include_authorized_operations", False):
            tell_operations(call, told)
        return call.answer({"groups": told})

    size = len(told) + sum(len(one.get("members", ())) for one in told)
    return await step_for(call, size, answered)


def tell_operations(call: Call, groups: Iterable[Fields]) -> None:
    """Add the client's operations to the described groups that have no error (KIP-430)."""
    for one in groups:
        if not one.get("error_code"):
            one["authorized_operations"] = group_operations(call, one["group_id"])


async def why_missing(call: Call, group_id: str, other: Request, kind: str) -> str:
    """Return the message for a group that is not of a kind.

    `other` describes groups of the other kind. Kafka's tools show the message.
    """
    found = await ask_coordinator(call, other, group_id)
    is_there = found is not None and not isinstance(found, int)
    return f"Group {group_id} " + (f"is not a {kind} group." if is_there else "not found.")


async def _described(call: Call, group_id: str) -> Fields:
    fields: Fields = {"group_id": group_id, "authorized_operations": NO_OPERATIONS}
    if not call.sees(group_id, Resource.GROUP):
        return {**fields, "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    found = await ask_coordinator(call, DescribeRequest(group_id), group_id)
    if isinstance(found, int):
        return {**fields, "error_code": found}
    if found is None:
        fields["group_state"] = str(State.DEAD)
        if call.version >= NOT_FOUND_SINCE:
            fields["error_code"] = ErrorCode.GROUP_ID_NOT_FOUND
            other = ConsumerDescribeRequest(group_id)
            fields["error_message"] = await why_missing(call, group_id, other, "classic")
        return fields
    members = [
        {
            "member_id": one.member_id,
            "group_instance_id": one.instance_id,
            "client_id": one.client_id,
            "client_host": one.client_host,
            "member_metadata": one.metadata,
            "member_assignment": one.assignment,
        }
        for one in found.members
    ]
    return {
        **fields,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol_name,
        "members": members,
    }


async def list_groups(call: Call) -> Reply:
    """Return the answer: the groups that this instance coordinates."""
    request = await call.request()
    states = {one.lower() for one in getattr(request, "states_filter", ())}
    types = {one.lower() for one in getattr(request, "types_filter", ())}
    groups = await call.gateway.coordinators.groups()

    def answered() -> Reply:
        told = [
            {
                "group_id": one.group_id,
                "protocol_type": one.protocol_type,
                "group_state": one.state,
                "group_type": one.kind,
            }
            for one in groups
            if (not states or one.state.lower() in states)
            and (not types or one.kind in types)
            and call.sees(one.group_id, Resource.GROUP)
        ]
        return call.answer({"error_code": ErrorCode.NONE, "groups": told})

    return await step_for(call, len(groups), answered)
