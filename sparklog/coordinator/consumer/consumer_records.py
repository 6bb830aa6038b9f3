"""The records of a consumer group: its epochs, its members, and their assignments (KIP-848).

type    key              value
3       group            epoch of the group, hash of the topics that it reads
5       group, member    the member's subscription
6       group            epoch of the target assignment
7       group, member    the member's target
8       group, member    the member's epoch, state and assignment
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from sparklog.coordinator.assignors import Partitions
from sparklog.coordinator.consumer.consumer_member import ConsumerMember, MemberState
from sparklog.coordinator.records import (
    CONSUMER_CURRENT,
    CONSUMER_EPOCH,
    CONSUMER_MEMBER,
    CONSUMER_TARGET,
    CONSUMER_TARGET_MEMBER,
    Record,
    write_record,
)
from sparklog.errors import CorruptRecordError


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of a group's epoch; `metadata_hash` is the hash of its topics."""
    value = {"epoch": epoch, "metadataHash": metadata_hash}
    return write_record(CONSUMER_EPOCH, {"groupId": group_id}, 0, value)


def target_epoch_record(group_id: str, epoch: int) -> Record:
    """Return the record of the epoch that the target assignment was made for."""
    value = {"assignmentEpoch": epoch}
    return write_record(CONSUMER_TARGET, {"groupId": group_id}, 0, value)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's subscription."""
    value = {
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": list(member.topic_names),
        "subscribedTopicRegex": member.topic_regex,
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "serverAssignor": member.assignor,
    }
    return write_record(CONSUMER_MEMBER, _member(group_id, member.member_id), 0, value)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """Return the record of a member's target."""
    value = {"topicPartitions": _written(target)}
    return write_record(CONSUMER_TARGET_MEMBER, _member(group_id, member_id), 0, value)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's epoch, state and assignment."""
    value = {
        "memberEpoch": member.epoch,
        "previousMemberEpoch": member.previous_epoch,
        "state": member.state,
        "assignedPartitions": _written(member.assigned),
        "partitionsPendingRevocation": _written(member.revoking),
    }
    return write_record(CONSUMER_CURRENT, _member(group_id, member.member_id), 0, value)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones of a member's records."""
    key = _member(group_id, member_id)
    kinds = (CONSUMER_CURRENT, CONSUMER_TARGET_MEMBER, CONSUMER_MEMBER)
    return [write_record(kind, key) for kind in kinds]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[Record]:
    """Return the tombstones of a group's records, and of those of members with a target."""
    members = [one for member_id in member_ids for one in member_tombstones(group_id, member_id)]
    kinds = (CONSUMER_TARGET, CONSUMER_EPOCH)
    return members + [write_record(kind, {"groupId": group_id}) for kind in kinds]


def subscription_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ConsumerMember that its member record (type 5) has."""
    return {
        "instance_id": value["instanceId"],
        "rack_id": value["rackId"],
        "client_id": value["clientId"] or "",
        "client_host": value["clientHost"] or "",
        "topic_names": tuple(value["subscribedTopicNames"] or ()),
        "topic_regex": value["subscribedTopicRegex"],
        "rebalance_timeout_ms": value["rebalanceTimeoutMs"],
        "assignor": value["serverAssignor"],
    }


def assignment_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ConsumerMember that its assignment record (type 8) has.

    Raises CorruptRecordError for an unknown state.
    """
    try:
        state = MemberState(value["state"])
    except ValueError:
        raise CorruptRecordError(
            f"state {value['state']} of a member: allowed are 0 to 2"
        ) from None
    return {
        "epoch": value["memberEpoch"],
        "previous_epoch": value["previousMemberEpoch"],
        "state": state,
        "assigned": partitions_of(value["assignedPartitions"]),
        "revoking": partitions_of(value["partitionsPendingRevocation"]),
    }


def partitions_of(topics: Iterable[Mapping[str, Any]] | None) -> Partitions:
    """Return the partitions that a record lists by topic."""
    return frozenset(
        (topic["topicId"], number) for topic in topics or () for number in topic["partitions"] or ()
    )


def by_topic(places: Partitions) -> Iterator[tuple[str, list[int]]]:
    """Yield the id of each topic, and the numbers of its partitions; both are sorted."""
    for topic_id, found in groupby(sorted(places), key=lambda place: place[0]):
        yield topic_id, [number for _, number in found]


def _written(places: Partitions) -> list[dict[str, Any]]:
    return [{"topicId": one, "partitions": numbers} for one, numbers in by_topic(places)]


def _member(group_id: str, member_id: str) -> dict[str, str]:
    return {"groupId": group_id, "memberId": member_id}
