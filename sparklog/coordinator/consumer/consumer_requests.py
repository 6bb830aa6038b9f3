"""Checks the form of requests of the consumer protocol, and describes its groups."""

from sparklog.coordinator.assignors import ASSIGNORS, NOTHING
from sparklog.coordinator.consumer.consumer_group import ConsumerGroup
from sparklog.coordinator.consumer.subscriptions import compiled
from sparklog.coordinator.requests import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeat,
    DescribedConsumer,
    DescribedConsumers,
)
from sparklog.errors import ErrorCode


def refusal(request: ConsumerHeartbeat) -> tuple[int, str] | None:
    """Return the code and the message if a heartbeat is malformed; None if it is accepted.

    The rules are those of throwIfConsumerGroupHeartbeatRequestIsInvalid (GroupMetadataManager).
    """
    if message := _malformed(request):
        return ErrorCode.INVALID_REQUEST, message
    if request.topic_regex:
        try:
            compiled(request.topic_regex)
        except ValueError as error:
            message = (
                f"SubscribedTopicRegex `{request.topic_regex}` is not a valid regular expression"
            )
            return ErrorCode.INVALID_REGULAR_EXPRESSION, f"{message}: {error}."
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        message = f"ServerAssignor {request.assignor} is not supported. "
        message += f"Supported assignors: {', '.join(ASSIGNORS)}."
        return ErrorCode.UNSUPPORTED_ASSIGNOR, message
    return None


def _malformed(request: ConsumerHeartbeat) -> str | None:
    texts = {
        "GroupId": request.group_id,
        "InstanceId": request.instance_id,
        "RackId": request.rack_id,
        "MemberId": request.member_id,
    }
    for name, text in texts.items():
        if text == "":
            return f"{name} can't be empty."
    if request.epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.owned is None or request.owned:
            return "TopicPartitions must be empty when (re-)joining."
        if request.topic_names is None and request.topic_regex is None:
            return (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            )
    elif request.epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    elif request.epoch < STATIC_LEAVE_EPOCH:
        return "MemberEpoch is invalid."
    return None


def described_consumers(group: object) -> DescribedConsumers | None:
    """Return a group for ConsumerGroupDescribe; None if it is not of this protocol."""
    if not isinstance(group, ConsumerGroup):
        return None
    members = tuple(
        DescribedConsumer(
            one.member_id,
            one.instance_id,
            one.rack_id,
            one.epoch,
            one.client_id,
            one.client_host,
            one.topic_names,
            one.topic_regex,
            one.assigned,
            group.targets.get(one.member_id, NOTHING),
        )
        for one in group.members.values()
    )
    return DescribedConsumers(
        str(group.state), group.epoch, group.target_epoch, group.assignor, members
    )
