"""Produce: appends a client's record batches to the log, unchanged.

The call itself puts the batches behind those of earlier requests; so the batches of a connection
land in the order in which they came. A request is answered when its commit is durable, with acks=1
as with acks=all. With acks=0 there is no answer, and an error closes the connection, as in Kafka.
A client that is too fast for the housekeeper gets a throttle time (`throttle`).
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from sparklog.errors import ErrorCode, InvalidRequestError, SparklogError, UnknownTopicError
from sparklog.group_commit.appends import Append, Appended
from sparklog.log.names import INTERNAL_TOPICS
from sparklog.metadata.image import Image, PartitionLog
from sparklog.model import TopicDescription
from sparklog.tokens import Scope
from sparklog.wire.handlers.call import Call, Later, Reply
from sparklog.wire.handlers.produce_bodies import (
    Failed,
    Outcome,
    ProduceRequest,
    code_of,
    message_of,
    read_produce_request,
    written_produce_answer,
)
from sparklog.wire.handlers.transactions import may_use
from sparklog.wire.throttle import some_of
from sparklog.wire.topic_ids import with_uuid

ALLOWED_ACKS: Final = (-1, 0, 1)
_Committed = Appended | SparklogError
_WAITS: Final = Failed(ErrorCode.NONE, "")
"""Stands for the outcome of a batch that is being appended."""


def produce(call: Call) -> Reply | Awaitable[Reply] | Later:
    """Return the answer, an awaitable of it, or a Later.

    The batches of a partition are appended in the order of these calls.
    """
    request = read_produce_request(call.reader(), call.version)
    if request.acks not in ALLOWED_ACKS:
        refused = Failed(
            ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: allowed are -1, 0, 1"
        )
        return _replied(call, request, [refused] * request.parts_count)
    if not _may_use_id(call, request):
        refused = Failed(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            f"no write access to transactional id {request.transactional_id!r}",
        )
        return _replied(call, request, [refused] * request.parts_count)
    # An older image is enough: the commit looks at the newest one, and refuses a deleted topic.
    session, image = call.session, call.gateway.topics.last_seen
    is_behind = _is_behind(session.produced)
    if is_behind or image is None or not all(_known(image, one.topic) for one in request.topics):
        session.produced = asyncio.ensure_future(_looked_up(call, request, session.produced))
        return _answered_later(call, request, session.produced)
    sent = _append(call, request, image)
    return Later(sent.answer, partial(_answered, call, request, sent))


def _is_behind(before: "asyncio.Future[_Sent] | None") -> bool:
    """Whether the batches of the previous request are not being appended: not yet, or never."""
    return before is not None and not (before.done() and before.exception() is None)


def _may_use_id(call: Call, request: ProduceRequest) -> bool:
    """Return True if no batch is transactional, or the client may use the request's id.

    Otherwise no batch of the request is appended (KafkaApis.handleProduceRequest).
    """
    name = request.transactional_id
    return (name is not None and may_use(call, name)) or not request.is_transactional


def _known(image: Image, topic: str | UUID) -> TopicDescription | None:
    return with_uuid(image, topic) if isinstance(topic, UUID) else image.names.get(topic)


class _Sent(NamedTuple):
    """A request whose batches are being appended.

    `answer` has the outcomes of the parts at `slots`; `outcomes` has those of the refused parts.
    """

    answer: "asyncio.Future[list[_Committed]]"
    slots: list[int]
    outcomes: list[Outcome]


def _append(call: Call, request: ProduceRequest, image: Image) -> _Sent:
    """Append the batches, except those of refused topics."""
    outcomes: list[Outcome] = []
    appends: list[Append] = []
    slots: list[int] = []
    for topic, parts in request.topics:
        known = _known(image, topic)
        refused = _refusal(call, topic, known)
        if known is not None and refused is None:
            slots += range(len(outcomes), len(outcomes) + len(parts))
            appends += [Append(known.topic_id, one.partition, one.batch or b"") for one in parts]
        outcomes += [refused or _WAITS] * len(parts)
    answer = call.gateway.appends.append(
        appends,
        client=call.session,
        produce_version=call.version,
        transactional_id=request.transactional_id,
    )
    return _Sent(answer, slots, outcomes)


def _refusal(call: Call, topic: str | UUID, known: TopicDescription | None) -> Failed | None:
    """Return why a client may not produce to a topic; None if it may."""
    name = known.name if known is not None else topic
    if isinstance(name, str) and not call.allows(Scope.WRITE, name):
        return Failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no write access to '{topic}'")
    if name in INTERNAL_TOPICS:
        return Failed(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by coordinators alone")
    if known is not None:
        return None
    if isinstance(topic, UUID):
        return Failed(ErrorCode.UNKNOWN_TOPIC_ID, f"unknown topic '{topic}'")
    return Failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"unknown topic {topic!r}")


async def _looked_up(
    call: Call, request: ProduceRequest, before: "asyncio.Future[_Sent] | None"
) -> _Sent:
    """Look the topics up in the newest image; append the batches after the previous request's.

    If that one failed, its connection is closed, and this one fails with its error: the batches of
    a producer must not land without those before them.
    """
    if before is not None:
        await asyncio.wait([before])
        before.result()
    return _append(call, request, await call.gateway.newest_image())


async def _answered_later(
    call: Call, request: ProduceRequest, looking_up: "asyncio.Future[_Sent]"
) -> Reply:
    sent = await looking_up
    await asyncio.wait([sent.answer])
    reply = _answered(call, request, sent, sent.answer)
    return await reply if isinstance(reply, Awaitable) else reply


def _answered(
    call: Call, request: ProduceRequest, sent: _Sent, done: "asyncio.Future[list[_Committed]]"
) -> Reply | Awaitable[Reply]:
    """Return the answer; topics that were deleted meanwhile are first looked up again."""
    outcomes = list(sent.outcomes)
    for slot, outcome in zip(sent.slots, done.result(), strict=True):
        outcomes[slot] = outcome
    if any(isinstance(one, UnknownTopicError) for one in outcomes):
        return _looked_again(call, request, outcomes)
    return _replied(call, request, outcomes)


async def _looked_again(call: Call, request: ProduceRequest, outcomes: list[Outcome]) -> Reply:
    """Replace the errors of topics that were deleted meanwhile by those that clients expect.

    It reads the newest image, so the next request finds new topics of these names.
    """
    image = await call.gateway.newest_image()
    topics = [topic for topic, parts in request.topics for _ in parts]
    for slot, (outcome, topic) in enumerate(zip(outcomes, topics, strict=True)):
        if isinstance(outcome, UnknownTopicError):
            refused = _refusal(call, topic, _known(image, topic))
            outcomes[slot] = refused or outcome
    return _replied(call, request, outcomes)


def _replied(call: Call, request: ProduceRequest, outcomes: Sequence[Outcome]) -> Reply:
    session = call.session
    session.throttle_ms = max(session.throttle_ms, _throttle_ms(call, request))
    if request.acks == 0:
        errors = [one for one in outcomes if code_of(one) != ErrorCode.NONE]
        if errors:
            raise InvalidRequestError(f"a produce with acks=0 failed: {message_of(errors[0])}")
        return None
    found = written_produce_answer(
        call.writer(), call.version, request.topics, outcomes, session.throttle_ms
    )
    return [found]


def _throttle_ms(call: Call, request: ProduceRequest) -> int:
    """Return the throttle time of a request that is answered."""
    throttle, image = call.gateway.throttle, call.gateway.topics.last_seen
    if not throttle.is_on or image is None:
        return 0
    places = [(topic, one.partition) for topic, parts in request.topics for one in parts]
    return throttle.time_ms(_logs(image, some_of(places)))


def _logs(image: Image, places: Iterable[tuple[str | UUID, int]]) -> Iterator[PartitionLog]:
    """Return the logs of partitions whose topics exist."""
    for name, number in places:
        known = _known(image, name)
        topic = None if known is None else image.topic(known.topic_id)
        if topic is not None and topic.is_open:
            yield topic.partition(number)
