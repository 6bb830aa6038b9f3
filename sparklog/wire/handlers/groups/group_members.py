"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the members of a group and their generations."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from sparklog.coordinator.requests import (
    PROTOCOLS_MAX,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    MemberIdentity,
    Protocol,
    Request,
    SyncAnswer,
    SyncRequest,
)
from sparklog.errors import ErrorCode, NotCoordinatorError, SparklogError, UsageError
from sparklog.metadata.state.image import Image
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.failed import code_of

MEMBER_ID_FIRST_SINCE: Final = 4
"""The first version of JoinGroup in which a new member first gets its id (KIP-394)."""
SKIPS_ASSIGNMENT_SINCE: Final = 9
NULL_PROTOCOL_SINCE: Final = 7
MEMBER_LIST_SINCE: Final = 3
"""The first version of LeaveGroup with several members."""


async def ask_if_allowed(
    call: Call, request: Request, group_id: str, image: Image | None = None
) -> Any:
    """Return the answer of a group's coordinator, or the code of its error.

    A client without READ on the group gets GROUP_AUTHORIZATION_FAILED. `image` is the newest image,
    if the caller has just read it.
    """
    if not call.allows(Scope.READ, group_id, Resource.GROUP):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return await ask_coordinator(call, request, group_id, image)


async def ask_coordinator(
    call: Call, request: Request, group_id: str, image: Image | None = None
) -> Any:
    """Return the same as `ask_if_allowed` for a client whose grants the caller has checked."""
    try:
        return await call.gateway.coordinators.ask(request, group_id, image)
    except SparklogError as error:
        return code_for(call, error)


def code_for(call: Call, error: SparklogError) -> int:
    """Return the code with which a request to a coordinator fails."""
    if isinstance(error, NotCoordinatorError):
        return error.code
    is_final = isinstance(error, UsageError)
    return ErrorCode.UNKNOWN_SERVER_ERROR if is_final else code_of(call.header.api_key, error)


async def join_group(call: Call) -> Reply:
    """Return the answer."""
    joining = await call.step(lambda: _joining(call, call.parsed()))
    answer = await ask_if_allowed(call, joining, joining.group_id)
    if isinstance(answer, int):
        answer = JoinAnswer(answer, joining.member_id)
    no_name = None if call.version >= NULL_PROTOCOL_SINCE else ""
    return call.answer(
        {
            "error_code": answer.error_code,
            "generation_id": answer.generation,
            "protocol_type": answer.protocol_type,
            "protocol_name": no_name if answer.protocol_name is None else answer.protocol_name,
            "leader": answer.leader,
            "skip_assignment": answer.skip_assignment,
            "member_id": answer.member_id,
            "members": [
                {
                    "member_id": one.member_id,
                    "group_instance_id": one.instance_id,
                    "metadata": one.metadata,
                }
                for one in answer.members
            ],
        }
    )


def _joining(call: Call, request: Any) -> JoinRequest:
    version, session_ms = call.version, milliseconds(request.session_timeout)
    some = request.protocols[: PROTOCOLS_MAX + 1]  # with one too many it is refused
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        client_id=call.header.client_id or "",
        client_host=client_host(call),
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(one.name, bytes(one.metadata)) for one in some),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout) if version else session_ms,
        needs_member_id=version >= MEMBER_ID_FIRST_SINCE,
        skips_assignment=version >= SKIPS_ASSIGNMENT_SINCE,
    )


async def sync_group(call: Call) -> Reply:
    """Return the answer."""
    syncing = await call.step(lambda: _syncing(call.parsed()))
    answer = await ask_if_allowed(call, syncing, syncing.group_id)
    if isinstance(answer, int):
        answer = SyncAnswer(answer)
    return call.answer(answer._asdict())


def _syncing(request: Any) -> SyncRequest:
    return SyncRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
        getattr(request, "protocol_type", None),
        getattr(request, "protocol_name", None),
        {one.member_id: bytes(one.assignment) for one in request.assignments},
    )


async def heartbeat(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    alive = HeartbeatRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
    )
    return call.answer({"error_code": await ask_if_allowed(call, alive, request.group_id)})


async def leave_group(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    members = await call.step(lambda: _leaving(call, request))
    answer = await ask_if_allowed(call, LeaveRequest(request.group_id, members), request.group_id)
    if isinstance(answer, int):
        answer = LeaveAnswer(answer)
    code = answer.error_code
    if call.version < MEMBER_LIST_SINCE:
        return call.answer({"error_code": code or answer.members[0]})

    def answered() -> Reply:
        told = [
            {
                "member_id": one.member_id,
                "group_instance_id": one.instance_id,
                "error_code": member_code,
            }
            for one, member_code in zip(members, answer.members, strict=False)
        ]
        return call.answer({"error_code": code, "members": told})

    return await call.step(answered)


def _leaving(call: Call, request: Any) -> tuple[MemberIdentity, ...]:
    if call.version < MEMBER_LIST_SINCE:
        return (MemberIdentity(request.member_id),)
    members: Sequence[Any] = request.members
    return tuple(MemberIdentity(one.member_id, one.group_instance_id) for one in members)


def client_host(call: Call) -> str:
    """Return a client's address, as Kafka writes it in a group's records."""
    return f"/{call.session.address}"


def milliseconds(duration: timedelta) -> int:
    """Return a duration of a request in milliseconds."""
    return duration // timedelta(milliseconds=1)
