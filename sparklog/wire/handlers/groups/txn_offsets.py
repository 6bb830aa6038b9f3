"""AddOffsetsToTxn, TxnOffsetCommit: offsets of a group that are committed with a transaction.

The group's coordinator checks the offsets as it checks a commit. Then they wait in the metadata.
The entry that ends the transaction appends them to __consumer_offsets.
"""

from collections.abc import Mapping
from typing import Any, Final

from sparklog.coordinator.requests import (
    NO_EPOCH,
    NO_GENERATION,
    NO_MEMBER,
    CommitRequest,
    CommittedOffset,
)
from sparklog.errors import ErrorCode
from sparklog.metadata.plans.transactions import Step
from sparklog.metadata.state.transactions import PendingOffset
from sparklog.model import TopicPartition
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.groups.group_members import ask_if_allowed
from sparklog.wire.handlers.groups.group_offsets import commit_codes
from sparklog.wire.handlers.groups.offset_commit import TopicRule
from sparklog.wire.handlers.transactional.transactions import (
    FENCED_SINCE,
    may_use,
    step_of,
    take_step,
)

ABORTABLE_IN: Final = 4
"""The version of TxnOffsetCommit whose answer may be TRANSACTION_ABORTABLE (KIP-890)."""
ADDS_SINCE: Final = 5
"""The first version of TxnOffsetCommit that adds its group to the transaction itself (KIP-890)."""


async def add_offsets_to_txn(call: Call) -> Reply:
    """Return the answer."""
    transactions = call.gateway.transactions
    request, step = await step_of(call, has_epoch=False)
    if not may_use(call, request.transactional_id):
        code: Any = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not call.allows(Scope.READ, request.group_id, Resource.GROUP):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        code = await take_step(
            call,
            lambda: transactions.add_group(step, request.group_id),
            is_fenced_known=call.version >= FENCED_SINCE,
        )
    return call.answer({"error_code": code or ErrorCode.NONE})


async def txn_offset_commit(call: Call) -> Reply:
    """Return the answer."""
    request, step = await step_of(call, has_epoch=call.version >= ADDS_SINCE)
    given = await call.step(lambda: _given_offsets(request))
    codes = dict.fromkeys(given, int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if may_use(call, request.transactional_id):
        codes = await _kept(call, request, step, given)
    return await call.step(lambda: call.answer({"topics": commit_codes(request.topics, codes)}))


async def _kept(
    call: Call, request: Any, step: Step, given: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, int]:
    """Keep the offsets that the group's coordinator accepts; return the code of each offset."""
    image = await call.gateway.image()
    codes = await call.step(
        lambda: {
            place: TopicRule.of(call, image, place.topic).code(place.partition) for place in given
        }
    )
    judged = CommitRequest(
        group_id=request.group_id,
        offsets={place: offset for place, offset in given.items() if not codes[place]},
        generation=getattr(request, "generation_id", NO_GENERATION),
        member_id=getattr(request, "member_id", NO_MEMBER),
        instance_id=getattr(request, "group_instance_id", None),
        is_transactional=True,
    )
    answer = await ask_if_allowed(call, judged, request.group_id)
    if isinstance(answer, int):
        codes = dict.fromkeys(given, answer)
    else:
        codes.update(answer.partitions)
    offsets = [
        PendingOffset(request.group_id, *place, one.offset, one.leader_epoch, one.metadata)
        for place, one in given.items()
        if not codes[place]
    ]
    if offsets:
        codes.update(await _keep_until_end(call, step, offsets))
        # The group may have begun a rebalance since: then its next members must not have read the
        # offsets before these. From here on they see that offsets are pending.
        again = await ask_if_allowed(call, judged._replace(offsets={}), request.group_id)
        refused = again if isinstance(again, int) else again.error_code
        codes = {place: code or refused for place, code in codes.items()}
    return codes


def _given_offsets(request: Any) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(topic.name, one.partition_index): CommittedOffset(
            one.committed_offset,
            getattr(one, "committed_leader_epoch", NO_EPOCH),
            one.committed_metadata or "",
        )
        for topic in request.topics
        for one in topic.partitions
    }


async def _keep_until_end(
    call: Call, step: Step, offsets: list[PendingOffset]
) -> dict[TopicPartition, int]:
    """Keep offsets in the metadata until their transaction ends; return the code of each."""
    adds_group, transactions = call.version >= ADDS_SINCE, call.gateway.transactions
    code = await take_step(
        call,
        lambda: transactions.commit_offsets(
            step, offsets[0].group_id, offsets, adds_group=adds_group
        ),
        is_fenced_known=False,
    )
    is_abortable = code == ErrorCode.INVALID_TXN_STATE and call.version == ABORTABLE_IN
    told = ErrorCode.TRANSACTION_ABORTABLE if is_abortable else code or ErrorCode.NONE
    return {TopicPartition(one.topic, one.partition): told for one in offsets}
