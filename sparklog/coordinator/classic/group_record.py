"""The record of a classic group: written at the end of a rebalance, read when a shard loads.

A loaded group without members is Empty. A loaded group with members is Stable: the members keep
their generation and the chosen protocol.
"""

from collections.abc import Mapping
from typing import Any, Final

from sparklog.coordinator.classic.consumer_protocol import CONSUMER, topics_of
from sparklog.coordinator.classic.group import Group
from sparklog.coordinator.classic.member import Member
from sparklog.coordinator.records import GROUP_METADATA, Record, write_record
from sparklog.coordinator.requests import DescribedGroup, DescribedMember, Protocol
from sparklog.coordinator.states import State
from sparklog.errors import CorruptRecordError

VERSION: Final = 3
"""The version of the value that Kafka 4.1.1 writes."""
HELD: Final = DescribedGroup(str(State.EMPTY), "", "", ())
"""A group of which there are only offsets that a transaction holds."""


def group_record(group: Group, assignments: Mapping[str, bytes] | None) -> Record:
    """Return the record of a group: with new assignments by member id, if they are given."""
    protocol = group.protocol or ""
    value = {
        "protocolType": group.protocol_type or "",
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.members.leader,
        "currentStateTimestamp": group.state_ms,
        "members": [
            {
                "memberId": one.member_id,
                "groupInstanceId": one.instance_id,
                "clientId": one.client_id,
                "clientHost": one.client_host,
                "rebalanceTimeout": one.rebalance_timeout_ms,
                "sessionTimeout": one.session_timeout_ms,
                "subscription": one.metadata(protocol),
                "assignment": one.assignment
                if assignments is None
                else assignments.get(one.member_id, b""),
            }
            for one in group.members
        ],
    }
    return write_record(GROUP_METADATA, {"group": group.group_id}, VERSION, value)


def group_tombstone(group_id: str) -> Record:
    """Return the tombstone of a group's record."""
    return write_record(GROUP_METADATA, {"group": group_id})


def restore(group: Group, value: dict[str, Any]) -> None:
    """Set a new group to the state in a record's value."""
    group.protocol_type = value["protocolType"] or None
    group.generation = value["generation"]
    group.protocol = value["protocol"]
    group.state_ms = max(value.get("currentStateTimestamp", 0), 0)
    for one in value["members"] or ():
        session_ms = one["sessionTimeout"]
        member = Member(
            one["memberId"],
            one.get("groupInstanceId"),
            one["clientId"] or "",
            one["clientHost"] or "",
            session_ms,
            one.get("rebalanceTimeout", session_ms),
            (Protocol(group.protocol or "", one["subscription"] or b""),),
            one["assignment"] or b"",
            is_new=False,
        )
        group.members.add(member)
    if len(group.members):
        group.members.leader = value["leader"]
        group.state = State.STABLE


def described(group: object, *, is_held: bool) -> DescribedGroup | None:
    """Return a group for DescribeGroups; None if it is not of this protocol.

    `is_held`: a transaction holds offsets for the group, so it exists. Only a Stable group has a
    protocol and metadata. Assignments stay until the next ones: during a rebalance they tell who
    reads which partitions.
    """
    if not isinstance(group, Group):
        return HELD if group is None and is_held else None
    is_stable = group.state is State.STABLE
    protocol = (group.protocol or "") if is_stable else ""
    members = tuple(
        DescribedMember(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            one.metadata(protocol) if is_stable else b"",
            one.assignment,
        )
        for one in group.members
    )
    return DescribedGroup(str(group.state), group.protocol_type or "", protocol, members)


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Return the topics that the members of a group read; None if they are unknown."""
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    found: set[str] = set()
    for one in group.members:
        try:
            found.update(topics_of(one.metadata(group.protocol)))
        except CorruptRecordError:
            return None
    return frozenset(found)
