"""Groups of either protocol, classic or consumer: questions that both answer."""

from sparklog.coordinator.consumer_group import ConsumerGroup
from sparklog.coordinator.group import Group
from sparklog.coordinator.requests import ListedGroup
from sparklog.coordinator.states import State

AnyGroup = Group | ConsumerGroup


def has_members(group: AnyGroup) -> bool:
    """Return True if a group has a member."""
    if isinstance(group, ConsumerGroup):
        return bool(group.members)
    return group.state is not State.EMPTY


def is_empty(group: AnyGroup) -> bool:
    """Return True if a group has neither a member nor a pending id."""
    is_pending = isinstance(group, Group) and bool(group.members.pending)
    return not has_members(group) and not is_pending


def listed(group: AnyGroup) -> ListedGroup:
    """Return a group for ListGroups."""
    kind = "consumer" if isinstance(group, ConsumerGroup) else "classic"
    return ListedGroup(group.group_id, group.protocol_type or "", str(group.state), kind)
