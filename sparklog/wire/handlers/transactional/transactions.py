"""AddPartitionsToTxn, EndTxn: the steps of a transactional producer.

Any instance takes any step, because each step is a commit. Ends share the commits of batches. Older
clients get INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED (KIP-588).
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from sparklog.errors import CommitError, ErrorCode, SparklogError, StorageError, UsageError
from sparklog.metadata.plans.transactions import NOBODY, Producer, Step, bound
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import TransactionPartition
from sparklog.tokens import Resource, Scope
from sparklog.transactions.steps import EndOfStep
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.security.authorization import DENIED
from sparklog.wire.standstill import STILL_MS

FENCED_SINCE: Final = 2
"""The first version of these requests whose answer may be PRODUCER_FENCED."""
BUMPS_SINCE: Final = 5
"""The first version of EndTxn that raises the epoch (KIP-890)."""

_END: Final = struct.Struct(">qh?")
_REPEATED: Final = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT)
"""Codes of failures after which the client repeats the step; no client gets them."""

Place = tuple[str, int]


def code_of(error: SparklogError, *, is_fenced_known: bool) -> int:
    """Return the code of a step that failed.

    COORDINATOR_NOT_AVAILABLE makes every client repeat the step. It also stands for a commit that
    is late or may have landed (TransactionStateManager.appendTransactionToLog): with another code
    librdkafka would abort a transaction that is committed.
    """
    if error.code == ErrorCode.PRODUCER_FENCED and not is_fenced_known:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    is_told = isinstance(error, UsageError | CommitError) and error.code not in _REPEATED
    return error.code if is_told else ErrorCode.COORDINATOR_NOT_AVAILABLE


async def take_step(call: Call, step: Callable[[], Any], *, is_fenced_known: bool) -> Any:
    """Take a step of a transaction; return its result, or the code of its error as an ErrorCode."""
    try:
        return await call.gateway.transact(step)
    except SparklogError as error:
        return ErrorCode(code_of(error, is_fenced_known=is_fenced_known))


def may_use(call: Call, transactional_id: str) -> bool:
    """Whether the client may take steps of a transactional id."""
    return call.allows(Scope.WRITE, transactional_id, Resource.TRANSACTIONAL_ID)


async def step_of(call: Call, *, has_epoch: bool) -> tuple[Any, Step]:
    """Return a request with a transactional id and its producer, and its step.

    The step cannot count for a later transaction than the client means. `has_epoch`: the client has
    a new epoch for each transaction (KIP-890), which is enough. For other clients the step gets the
    number of its transaction (`bound`), from an image that is read first: a long request waits
    until it is read. Raises as `image_in_time`.
    """
    image = None if has_epoch else await image_in_time(call)
    request = await call.request()
    step = Step(request.transactional_id, Producer(request.producer_id, request.producer_epoch))
    return request, step if image is None else bound(image, step)


async def image_in_time(call: Call) -> Image:
    """Return the newest image, of a look that took less than STILL_MS.

    Raises StorageError after a longer one: the client may have taken the step elsewhere, and
    begun its next transaction, which the image would show.
    """
    clock = call.gateway.clock
    began_ms = clock.boot_ms()
    image = await call.gateway.newest_image()
    took_ms = clock.boot_ms() - began_ms
    if took_ms >= STILL_MS:
        raise StorageError(
            f"the look at the metadata log took {took_ms} ms: a step of a transaction is taken "
            f"only after a look of less than {STILL_MS} ms"
        )
    return image


async def add_partitions_to_txn(call: Call) -> Reply:
    """Return the answer. Either all partitions are added, or none."""
    image = await image_in_time(call)  # before the wait for a long request to be read
    request = await call.request()
    name = request.v3_and_below_transactional_id
    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    codes = await call.step(lambda: _judged(call, image, request))
    if not may_use(call, name):
        codes = dict.fromkeys(codes, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif any(codes.values()):
        codes = {place: code or ErrorCode.OPERATION_NOT_ATTEMPTED for place, code in codes.items()}
    else:
        found = [TransactionPartition(image.names[one].topic_id, number) for one, number in codes]
        step = bound(image, Step(name, producer))
        answer = await take_step(
            call,
            lambda: call.gateway.transactions.add_partitions(step, found),
            is_fenced_known=call.version >= FENCED_SINCE,
        )
        codes = dict.fromkeys(codes, answer or ErrorCode.NONE)

    def answered() -> Reply:
        topics = [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": codes[topic.name, number]}
                    for number in topic.partitions
                ],
            }
            for topic in request.v3_and_below_topics
        ]
        return call.answer({"results_by_topic_v3_and_below": topics})

    return await call.step(answered)


def _judged(call: Call, image: Image, request: Any) -> dict[Place, int]:
    """Return the code of each partition of a request."""
    return {
        (topic.name, number): _code(call, image, topic.name, number)
        for topic in request.v3_and_below_topics
        for number in topic.partitions
    }


def _code(call: Call, image: Image, name: str, number: int) -> int:
    """Return why a partition cannot be added to a transaction; 0 when it can."""
    if not call.allows(Scope.WRITE, name):
        return DENIED[Resource.TOPIC]
    topic = image.names.get(name)
    is_there = topic is not None and 0 <= number < topic.num_partitions
    return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def end_txn(call: Call) -> Reply:
    """Return the answer; from version 5 on with the producer's next epoch.

    Each transaction sends this request, so its bodies are read and written by hand
    (EndTxnRequest.json, EndTxnResponse.json).
    """
    reader = call.reader()
    name = reader.string()
    *producer, is_commit = reader.numbers(_END)
    reader.tags()
    found: Producer | ErrorCode = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if may_use(call, name):
        bumps = call.version >= BUMPS_SINCE
        step = Step(name, Producer(*producer))
        if not bumps:  # before any other wait: see `step_of`
            step = bound(await image_in_time(call), step, ends=True)
        end = EndOfStep(step, is_commit=is_commit, bumps=bumps)
        await call.gateway.appends.join(end)
        try:
            found = end.producer
        except SparklogError as error:
            found = ErrorCode(code_of(error, is_fenced_known=call.version >= FENCED_SINCE))
    return [_end_answer(call, found)]


def _end_answer(call: Call, found: Producer | ErrorCode) -> bytes:
    writer = call.writer()
    code, producer = (found, NOBODY) if isinstance(found, ErrorCode) else (ErrorCode.NONE, found)
    writer.int32(0)  # throttle time
    writer.int16(code)
    if call.version >= BUMPS_SINCE:
        writer.int64(producer.producer_id)
        writer.int16(producer.epoch)
    writer.tags()
    return bytes(writer.data)
