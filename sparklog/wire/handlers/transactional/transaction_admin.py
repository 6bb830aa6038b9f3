"""DescribeTransactions, ListTransactions, WriteTxnMarkers: requests of an operator.

`kafka-transactions abort` sends a marker for one partition. A transaction cannot end in only some
of its partitions, so the marker aborts the whole transaction, and fences its producer.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from sparklog.coordinator.consumer.subscriptions import compiled
from sparklog.errors import ErrorCode, SparklogError
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
from sparklog.wire.handlers.transactional.transactions import code_of
from sparklog.wire.instances import leader_of
from sparklog.wire.security.authorization import DENIED

NO_TIME: Final = -1
log: Final = logging.getLogger("sparklog.gateway")

Fields = dict[str, Any]
_Abort = Callable[[], object]
"""Aborts the transaction that a producer has open in a partition, in all its partitions."""


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
    image = await call.gateway.newest_image() if is_allowed else None
    found = await call.step(lambda: _judged(call, image, request))
    codes = [one if isinstance(one, int) else await _code_of_step(call, one) for one in found]
    return await call.step(lambda: _answered(call, request, codes))


def _judged(call: Call, image: Image | None, request: Any) -> list[int | _Abort]:
    """Return the code or the step of each partition, in the order of the request.

    `image` is None if the client may abort nothing.
    """
    return [
        _code_or_step(call, image, marker, topic.name, number)
        for marker in request.markers
        for topic in marker.topics
        for number in topic.partition_indexes
    ]


def _code_or_step(
    call: Call, image: Image | None, marker: Any, name: str, number: int
) -> int | _Abort:
    """Return the step that aborts a producer's open transaction; the code if it is refused."""
    if image is None:
        return DENIED[Resource.CLUSTER]
    if marker.transaction_result:
        return ErrorCode.INVALID_REQUEST
    topic = image.names.get(name)
    if topic is None or not 0 <= number < topic.num_partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    producer = Producer(marker.producer_id, marker.producer_epoch)
    place = TransactionPartition(topic.topic_id, number)
    return partial(call.gateway.transactions.abort_in, place, producer)


async def _code_of_step(call: Call, step: _Abort) -> int:
    """Abort, and return the code. The text of an error is logged: no answer has room for it."""
    try:
        await call.gateway.transact(step, by_hand=True)
    except SparklogError as error:
        log.warning("WriteTxnMarkers: %s", error)
        return code_of(error, is_fenced_known=True)
    return ErrorCode.NONE


def _answered(call: Call, request: Any, codes: Iterable[int]) -> Reply:
    """Return the answer; `codes` are in the order of the request."""
    code = iter(codes)
    markers = [
        {
            "producer_id": marker.producer_id,
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {"partition_index": number, "error_code": next(code)}
                        for number in topic.partition_indexes
                    ],
                }
                for topic in marker.topics
            ],
        }
        for marker in request.markers
    ]
    return call.answer({"markers": markers})
