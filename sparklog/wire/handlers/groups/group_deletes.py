"""DeleteGroups, OffsetDelete: delete groups, or some of their offsets.

Offsets that open transactions hold for the group are deleted, too: else the end of a transaction
would bring them back (OffsetMetadataManager.replay). A group exists as soon as a transaction holds
offsets for it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

from sparklog.coordinator.requests import (
    CommitAnswer,
    DeleteGroupRequest,
    OffsetDeleteRequest,
    Request,
)
from sparklog.errors import CommitOutcomeUnknownError, ErrorCode, SparklogError, StorageError
from sparklog.metadata.state.image import Image
from sparklog.model import TopicPartition
from sparklog.tokens import Resource, Scope
from sparklog.wire.each import each
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.groups.group_members import ask_coordinator, code_for
from sparklog.wire.handlers.groups.group_offsets import commit_codes
from sparklog.wire.handlers.groups.offset_commit import TopicRule
from sparklog.wire.handlers.transactional.transactions import take_step

_DELETED: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)

Places = AbstractSet[tuple[str, int]]


async def delete_groups(call: Call) -> Reply:
    """Return the answer. Groups that are deleted side by side share commits."""
    request, outages = await call.request(), list[int]()
    results = await each(request.groups_names, partial(_delete_group, call, outages))
    return await call.step(lambda: call.answer({"results": results}))


async def _delete_group(call: Call, outages: list[int], group_id: str) -> Mapping[str, Any]:
    """Delete a group; its error is that of this group alone.

    But when the storage has failed, the groups that come later get its code from `outages`: to try
    them takes a timeout for some of them each, and would delete groups long after the client left.
    """
    if outages:
        return {"group_id": group_id, "error_code": outages[0]}
    try:
        code = await _delete(call, group_id)
    except SparklogError as error:
        code = code_for(call, error)
        if isinstance(error, StorageError | CommitOutcomeUnknownError):
            outages.append(code)
    return {"group_id": group_id, "error_code": code}


async def _delete(call: Call, group_id: str) -> int:
    if not call.allows(Scope.ADMIN, group_id, Resource.GROUP):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    held = await _held(call, group_id)
    request = DeleteGroupRequest(group_id)
    code: int = await call.gateway.coordinators.ask(request, group_id)
    if code in _DELETED and held:
        return await _drop_offsets(call, request, group_id, held)
    return code


async def offset_delete(call: Call) -> Reply:
    """Return the answer."""
    request, image = await call.request(), await call.gateway.image()
    group_id, codes = request.group_id, await call.step(lambda: _codes(call, image, request))
    allowed = await call.step(lambda: [place for place, code in codes.items() if not code])
    answer = CommitAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if call.allows(Scope.ADMIN, group_id, Resource.GROUP):
        answer = await _delete_offsets(call, OffsetDeleteRequest(group_id, allowed))
    if answer.error_code:
        return call.answer({"error_code": answer.error_code, "topics": []})

    def answered() -> Reply:
        codes.update(answer.partitions)
        topics = commit_codes(request.topics, codes)
        return call.answer({"error_code": ErrorCode.NONE, "topics": topics})

    return await call.step(answered)


def _codes(call: Call, image: Image, request: Any) -> dict[TopicPartition, int]:
    """Return the code of each partition whose offset is not deleted, and 0 for the others."""
    rules = {topic.name: TopicRule.of(call, image, topic.name) for topic in request.topics}
    return {
        TopicPartition(topic.name, one.partition_index): rules[topic.name].code(one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    }


async def _delete_offsets(call: Call, request: OffsetDeleteRequest) -> CommitAnswer:
    group_id = request.group_id
    held = await _held(call, group_id)
    found: CommitAnswer | int = await ask_coordinator(call, request, group_id)
    answer = CommitAnswer(found) if isinstance(found, int) else found
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND and held:
        answer = CommitAnswer(ErrorCode.NONE, dict.fromkeys(request.partitions, ErrorCode.NONE))
    dropped = {place for place, code in answer.partitions.items() if not code} & held
    if dropped:
        code = await _drop_offsets(call, request, group_id, dropped)
        answer = answer if code in _DELETED else CommitAnswer(code)
    return answer


async def _held(call: Call, group_id: str) -> Places:
    """Return the (topic, partition)s of the offsets that open transactions hold for a group."""
    image = await call.gateway.newest_image()
    return image.transactional_ids.pending(group_id)


async def _drop_offsets(call: Call, request: Request, group_id: str, places: Places) -> int:
    """Drop offsets from open transactions; return the code of an error, or NONE.

    The coordinator then gets the request again: a transaction may have ended after the first time.
    """
    transactions = call.gateway.transactions
    problem: ErrorCode | None = await take_step(
        call, lambda: transactions.drop_offsets(group_id, places), is_fenced_known=True
    )
    if problem is not None:
        return problem
    again = await ask_coordinator(call, request, group_id)
    code: int = again if isinstance(again, int) else again.error_code
    return ErrorCode.NONE if code in _DELETED else code
