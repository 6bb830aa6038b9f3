"""DescribeTransactions, ListTransactions, WriteTxnMarkers: requests of an operator.

`kafka-transactions abort` sends a marker for one partition. A transaction cannot end in only some
of its partitions, so the marker aborts the whole transaction, and fences its producer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from sparklog.coordinator.consumer.subscriptions import compiled
from sparklog.errors import ErrorCode
from sparklog.metadata.plans.transactions import Producer
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import (
    TransactionalId,
    TransactionalIds,
    TransactionPartition,
    TransactionStatus,
)
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.transactional.transactions import take_step
from sparklog.wire.instances import leader_of
from sparklog.wire.security.authorization import DENIED

NO_TIME: Final = -1

Fields = dict[str, Any]


async def describe_transactions(call: Call) -> Reply:
    """Return the answer."""
    request, image = await call.request(), await call.gateway.newest_image()
    names = dict.fromkeys(request.transactional_ids)  # one may have many partitions

    def answered() -> Reply:
        states = [_described(call, image, name) for name in names]
        return call.answer({"transaction_states": states})

    return await call.step(answered)


def _described(call: Call, image: Image, name: str) -> Fields:
    fields: Fields = {"transactional_id": name, "transaction_start_time": 0}
    if not call.sees(name, Resource.TRANSACTIONAL_ID):
        return {**fields, "error_code": DENIED[Resource.TRANSACTIONAL_ID]}
    found = image.transactional_ids.get(name)
    if found is None:
        return {**fields, "error_code": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    topics: dict[str, list[int]] = {}
    for topic_id, number in found.partitions:
        topic = image.topic(topic_id)
        if topic is not None and call.sees(topic.description.name):
            topics.setdefault(topic.description.name, []).append(number)
    return {
        **fields,
        "error_code": ErrorCode.NONE,
        "transaction_state": found.status,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.started_ms if found.is_open else NO_TIME,
        "producer_id": found.producer_id,
        "producer_epoch": found.epoch,
        "topics": [{"topic": name, "partitions": numbers} for name, numbers in topics.items()],
    }


async def list_transactions(call: Call) -> Reply:
    """Return the answer. Only one instance lists an id, because clients ask all instances."""
    request, gateway = await call.request(), call.gateway
    image, now_ms = await gateway.newest_image(), gateway.clock.now_ms()
    try:
        is_wanted = _filter(request, now_ms)
    except ValueError:
        return call.answer({"error_code": ErrorCode.INVALID_REGULAR_EXPRESSION})
    known = {str(one) for one in TransactionStatus}
    unknown = [one for one in request.state_filters if one not in known]
    fields = {"error_code": ErrorCode.NONE, "unknown_state_filters": unknown}
    listed = partial(_listed, call, image.transactional_ids, is_wanted)
    # A sink of Flink has a new id for each checkpoint, and a log dir has them for seven days.
    return await gateway.at_length(lambda: call.answer({**fields, "transaction_states": listed()}))


def _listed(
    call: Call, ids: TransactionalIds, is_wanted: Callable[[TransactionalId], bool]
) -> list[Fields]:
    instances, own = call.instances, call.gateway.instances.own.node_id
    return [
        {
            "transactional_id": name,
            "producer_id": one.producer_id,
            "transaction_state": one.status,
        }
        for name, one in sorted(ids.by_id.items())
        if is_wanted(one)
        and call.sees(name, Resource.TRANSACTIONAL_ID)
        and leader_of(f"transaction {name}", instances).node_id == own
    ]


def _filter(request: Any, now_ms: int) -> Callable[[TransactionalId], bool]:
    """Return the rule of a request (TransactionStateManager.listTransactionStates).

    A pattern has RE2's syntax (KIP-1152): it is matched in linear time, whatever a client sends.
    Raises ValueError for an invalid pattern.
    """
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    duration_ms = getattr(request, "duration_filter", NO_TIME)
    text = getattr(request, "transactional_id_pattern", None)
    pattern = compiled(text) if text else None

    def is_wanted(one: TransactionalId) -> bool:
        is_long = one.is_open and now_ms - one.started_ms > duration_ms
        return (
            (not states or one.status in states)
            and (not producers or one.producer_id in producers)
            and (duration_ms < 0 or is_long)
            and (pattern is None or pattern.fullmatch(one.transactional_id) is not None)
        )

    return is_wanted


async def write_txn_markers(call: Call) -> Reply:
    """Return the answer. Only ABORT is allowed: only its producer commits a transaction."""
    request = await call.request()
    is_allowed = call.allows(Scope.ADMIN, resource=Resource.CLUSTER)
    markers = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            codes = [
                (number, await _abort(call, marker, topic.name, number))
                if is_allowed
                else (number, DENIED[Resource.CLUSTER])
                for number in topic.partition_indexes
            ]
            topics.append(_answered(topic.name, codes))
        markers.append({"producer_id": marker.producer_id, "topics": topics})
    return call.answer({"markers": markers})


def _answered(name: str, codes: Sequence[tuple[int, int]]) -> Fields:
    partitions = [{"partition_index": number, "error_code": code} for number, code in codes]
    return {"name": name, "partitions": partitions}


async def _abort(call: Call, marker: Any, name: str, number: int) -> int:
    """Abort a producer's transaction that is open in a partition; return the code."""
    if marker.transaction_result:
        return ErrorCode.INVALID_REQUEST
    topic = (await call.gateway.newest_image()).names.get(name)
    if topic is None or not 0 <= number < topic.num_partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    producer = Producer(marker.producer_id, marker.producer_epoch)
    place = TransactionPartition(topic.topic_id, number)
    step = partial(call.gateway.transactions.abort_in, place, producer)
    code: int = await take_step(call, step, is_fenced_known=True)
    return code or ErrorCode.NONE
