"""A member of a consumer group (KIP-848), and its way to its target assignment.

    STABLE ──target changes──▶ UNREVOKED_PARTITIONS ──it has given them up──▶ UNRELEASED_PARTITIONS
      ▲                                         other members have given theirs up    │
      └───────────────────────────────────────────────────────────────────────────────┘

A member gets a partition as soon as no other member has it. A member that must give partitions up
keeps its epoch until it confirms that it has done so. The rules are those of Kafka's
CurrentAssignmentBuilder.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from sparklog.coordinator.assignors import NOTHING, Partitions, TopicIdPartition
from sparklog.coordinator.requests import ConsumerHeartbeat


class MemberState(IntEnum):
    """The states of a member, numbered as in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerMember:
    """One member: the subscription that it has sent, and the assignment that it has received."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING
    """Partitions that the member must give up, and has not confirmed yet."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has all partitions that the target of an epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at(self, epoch: int) -> "ConsumerMember":
        """Return the member in another epoch."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    def told(self, request: ConsumerHeartbeat) -> "ConsumerMember":
        """Return the member with the fields that a heartbeat has set."""
        timeout_ms = request.rebalance_timeout_ms
        told: dict[str, Any] = {
            "instance_id": request.instance_id,
            "rack_id": request.rack_id,
            "assignor": request.assignor,
            "topic_names": request.topic_names,
            "topic_regex": request.topic_regex,
            "rebalance_timeout_ms": None if timeout_ms == -1 else timeout_ms,
            "client_id": request.client_id,
            "client_host": request.client_host,
        }
        return replace(self, **{name: one for name, one in told.items() if one is not None})


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> ConsumerMember:
    """Return a member one step nearer to its target; the same member if it must wait.

    `owned` are the partitions that the member reports; None if its heartbeat does not report any.
    `is_free` tells whether a partition is free: no other member has it, or must still give it up.
    """
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if owned is None or owned & member.revoking:
            return member
        epoch += 1
    kept = member.assigned & target
    revoking = member.assigned - kept
    if revoking and (owned is None or owned & revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(member.at(epoch), state=state, assigned=kept, revoking=revoking)
    wanted = target - kept
    free = frozenset(place for place in wanted if is_free(place))
    is_whole = free == wanted
    state = MemberState.STABLE if is_whole else MemberState.UNRELEASED_PARTITIONS
    return replace(member.at(target_epoch), state=state, assigned=kept | free, revoking=NOTHING)
