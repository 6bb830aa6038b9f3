"""Groups of either protocol, classic or consumer: questions that both answer."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from sparklog.coordinator.classic.group import Group
from sparklog.coordinator.consumer.consumer_group import ConsumerGroup
from sparklog.coordinator.requests import ListedGroup
from sparklog.coordinator.states import State

AnyGroup = Group | ConsumerGroup
CLASSIC: Final = "classic"


def has_members(group: AnyGroup) -> bool:
    """Return True if a group has a member."""
    if isinstance(group, ConsumerGroup):
        return bool(group.members)
    return group.state is not State.EMPTY


def is_empty(group: AnyGroup) -> bool:
    """Return True if a group has neither a member nor a pending id."""
    is_pending = isinstance(group, Group) and bool(group.members.pending)
    return not has_members(group) and not is_pending


def listed(groups: Mapping[str, AnyGroup], held: AbstractSet[str]) -> list[ListedGroup]:
    """Return groups for ListGroups.

    A group of `held` exists as soon as a transaction holds offsets for it
    (OffsetMetadataManager.replay).
    """
    found = [_listed(one) for one in groups.values()]
    empty = str(State.EMPTY)
    return found + [ListedGroup(one, "", empty, CLASSIC) for one in held if one not in groups]


def _listed(group: AnyGroup) -> ListedGroup:
    kind = "consumer" if isinstance(group, ConsumerGroup) else CLASSIC
    return ListedGroup(group.group_id, group.protocol_type or "", str(group.state), kind)
