"""Refuses requests to a group of the classic protocol; each function returns a code of Kafka's.

Rules and codes are those of Kafka 4.1.1 (GroupMetadataManager, ClassicGroup).
"""

from typing import TYPE_CHECKING

from sparklog.coordinator.requests import (
    NONE,
    PROTOCOLS_MAX,
    HeartbeatRequest,
    JoinRequest,
    SyncRequest,
)
from sparklog.coordinator.states import GroupLimits, State
from sparklog.errors import ErrorCode

if TYPE_CHECKING:
    from sparklog.coordinator.classic.group import Group


def join_problem(group: "Group", request: JoinRequest, limits: GroupLimits) -> int:
    """Return the code of a refused JoinGroup; NONE if it is accepted."""
    members, names = group.members, {one.name for one in request.protocols}
    if not _has_room(group, request.member_id, limits.max_size):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not (request.protocol_type and names) or len(request.protocols) > PROTOCOLS_MAX:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is not State.EMPTY:
        is_same = group.protocol_type == request.protocol_type
        if not is_same or (len(members) and names.isdisjoint(members.candidates)):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_pending = request.member_id in members.pending
    if request.member_id and not (is_pending and request.instance_id is None):
        return members.problem(request.member_id, request.instance_id)
    return NONE


def _has_room(group: "Group", member_id: str, max_size: int) -> bool:
    """Return True if the group has room for a member: at most group.max.size members."""
    if group.state is State.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING:
        is_joining = member is not None and member.joining is not None
        return is_joining or group.members.joining < max_size
    return member is not None or len(group.members) < max_size


def sync_problem(group: "Group", request: SyncRequest) -> int:
    """Return the code of a refused SyncGroup; NONE if it is accepted."""
    if problem := generation_problem(group, request):
        return problem
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else NONE


def generation_problem(group: "Group", request: SyncRequest | HeartbeatRequest) -> int:
    """Return the code for a member that is unknown or of another generation; else NONE."""
    if problem := group.members.problem(request.member_id, request.instance_id):
        return problem
    return NONE if request.generation == group.generation else ErrorCode.ILLEGAL_GENERATION
