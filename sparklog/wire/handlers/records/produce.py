"""Produce: appends a client's record batches to the log, unchanged.

The call itself puts the batches behind those of earlier requests; so the batches of a connection
land in the order in which they came. A request is answered when its commit is durable, with acks=1
as with acks=all. With acks=0 there is no answer, and an error closes the connection, as in Kafka.
A client that is too fast for the housekeeper gets a throttle time (`throttle`). A request of many
parts is read, judged, checked and answered beside the event loop; the requests behind it wait for
that.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    ErrorCode,
    InvalidRequestError,
    LateWriterError,
    LogDirError,
    SparklogError,
    StorageError,
    UnknownTopicError,
)
from sparklog.group_commit.append_ahead import check_ahead
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.log.names import INTERNAL_TOPICS
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.model import TopicDescription
from sparklog.tokens import Scope
from sparklog.wire.handlers.call import Call, Later, Reply
from sparklog.wire.handlers.failed import tell
from sparklog.wire.handlers.records.produce_bodies import (
    Failed,
    Outcome,
    ProduceRequest,
    message_of,
    read_produce_request,
    written_produce_answer,
)
from sparklog.wire.handlers.transactional.transactions import may_use
from sparklog.wire.long_produces import LongProduce
from sparklog.wire.protocol.reading import ManyItemsError
from sparklog.wire.protocol.topic_ids import asked_topic, topic_id_of
from sparklog.wire.throttle import some_of

OWN_FAILURES: Final = (
    StorageError,
    CorruptMetadataError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    LateWriterError,
    LogDirError,
)
"""Errors that no client is at fault for: the log has them, because most clients only try again."""
ALLOWED_ACKS: Final = (-1, 0, 1)
QUICK_ITEMS: Final = 2_000
"""The most topics and parts of a request that the event loop itself works on."""
CHECKED_AT_ONCE: Final = 4_000
"""So many batches of a long request are checked in one step, which takes some 0.1 s."""
_Committed = Appended | SparklogError
_Begun = TypeVar("_Begun")
_Place = tuple[str | bytes, int]
"""A part of a request: its topic, by name or by id, and its partition."""
_WAITS: Final = Failed(ErrorCode.NONE, "")
"""Stands for the outcome of a batch that is being appended."""


def produce(call: Call) -> Reply | Awaitable[Reply] | Later:
    """Return the answer, an awaitable of it, or a Later.

    The batches of a partition are appended in the order of these calls.
    """
    session = call.session
    try:
        request = read_produce_request(call.reader(QUICK_ITEMS), call.version)
    except ManyItemsError:
        long = LongProduce(call.gateway.long_produces)
        sending = _begun(call, _sent_at_length(call, long, session.produced))
        return _answered_at_length(call, long, sending)
    refused = _refused(call, request)
    if refused is not None:
        return _replied(call, request, [refused] * request.parts_count)
    # An older image is enough: the commit looks at the newest one, and refuses a deleted topic.
    image = call.gateway.topics.last_seen
    if _is_behind(session.produced) or image is None or not _knows(image, request):
        looking_up = _begun(call, _looked_up(call, request, session.produced))
        return _answered_later(call, request, looking_up)
    sent = _append(call, _judged(call, request, image))
    return Later(sent.answer, partial(_answered, call, request, sent))


def _begun(call: Call, sending: Coroutine[Any, Any, _Begun]) -> "asyncio.Future[_Begun]":
    """Begin a request whose batches are appended later: those of later requests wait for it."""
    producing = call.gateway.producing
    begun = call.session.produced = asyncio.ensure_future(sending)
    producing.add(begun)
    begun.add_done_callback(producing.discard)
    return begun


def _is_behind(before: "asyncio.Future[Any] | None") -> bool:
    """Whether the batches of the previous request are not being appended: not yet, or never."""
    return before is not None and not (before.done() and before.exception() is None)


def _refused(call: Call, request: ProduceRequest) -> Failed | None:
    """Return why no batch of a request may be appended; None if the request is allowed.

    The rules are those of KafkaApis.handleProduceRequest.
    """
    if request.acks not in ALLOWED_ACKS:
        return Failed(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: allowed are -1, 0, 1")
    name = request.transactional_id
    if (name is None or not may_use(call, name)) and request.is_transactional:
        return Failed(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            f"no write access to transactional id {name!r}",
        )
    return None


def _knows(image: Image, request: ProduceRequest) -> bool:
    return all(asked_topic(image, one.topic) for one in request.topics)


class _Judged(NamedTuple):
    """A request whose batches may be appended.

    `slots` has the batches of the parts at `places`; `outcomes` has those of the refused parts.
    """

    slots: list[Slot]
    places: list[int]
    outcomes: list[Outcome]

    def drop_refused(self) -> None:
        """Move the outcomes of slots that have one to `outcomes`; keep the other slots.

        The lists are changed in place: the caller may be the event loop, and must not free them.
        """
        for slot, place in zip(self.slots, self.places, strict=True):
            if slot.outcome is not None:
                self.outcomes[place] = slot.outcome
        self.places[:] = [place for place in self.places if self.outcomes[place] is _WAITS]
        self.slots[:] = [slot for slot in self.slots if slot.outcome is None]


class _Sent(NamedTuple):
    """A request whose batches are being appended.

    `answer` has the outcomes of the parts at `places`; `outcomes` has those of the refused parts.
    """

    answer: "asyncio.Future[list[_Committed]]"
    places: list[int]
    outcomes: list[Outcome]

    def all(self, committed: Sequence[_Committed]) -> list[Outcome]:
        """Return the outcomes of all parts; `committed` is the result of `answer`."""
        found = list(self.outcomes)
        for place, outcome in zip(self.places, committed, strict=True):
            found[place] = outcome
        return found


def _judged(call: Call, request: ProduceRequest, image: Image) -> _Judged:
    """Return the batches, except those of refused topics."""
    outcomes: list[Outcome] = []
    slots: list[Slot] = []
    places: list[int] = []
    version, name = call.version, request.transactional_id
    for topic, parts in request.topics:
        known = asked_topic(image, topic)
        refused = _refusal(call, topic, known)
        if known is not None and refused is None:
            places += range(len(outcomes), len(outcomes) + len(parts))
            topic_id = known.topic_id
            slots += [
                Slot(Append(topic_id, number, batch or b""), version, name)
                for number, batch in parts
            ]
        outcomes += [refused or _WAITS] * len(parts)
    return _Judged(slots, places, outcomes)


def _append(call: Call, judged: _Judged) -> _Sent:
    answer = call.gateway.appends.append(judged.slots, client=call.session)
    return _Sent(answer, judged.places, judged.outcomes)


def _refusal(call: Call, topic: str | bytes, known: TopicDescription | None) -> Failed | None:
    """Return why a client may not produce to a topic; None if it may."""
    name = known.name if known is not None else topic
    if isinstance(name, str) and not call.allows(Scope.WRITE, name):
        return Failed(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no write access to topic {_told(topic)}"
        )
    if name in INTERNAL_TOPICS:
        return Failed(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by coordinators alone")
    if known is not None:
        return None
    is_name = isinstance(topic, str)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name else ErrorCode.UNKNOWN_TOPIC_ID
    return Failed(code, f"unknown topic {_told(topic)}")


def _told(topic: str | bytes) -> str:
    return repr(topic) if isinstance(topic, str) else f"id {topic_id_of(topic)}"


async def _looked_up(
    call: Call, request: ProduceRequest, before: "asyncio.Future[Any] | None"
) -> _Sent:
    """Look the topics up in the newest image; append the batches after the previous request's.

    If that one failed, its connection is closed, and this one fails with its error: the batches of
    a producer must not land without those before them.
    """
    await _ended(before)
    return _append(call, _judged(call, request, await call.gateway.newest_image()))


async def _ended(before: "asyncio.Future[Any] | None") -> None:
    """Wait until the batches of the previous request are being appended. Raises its error."""
    if before is not None:
        await asyncio.wait([before])
        before.result()


async def _answered_later(
    call: Call, request: ProduceRequest, looking_up: "asyncio.Future[_Sent]"
) -> Reply:
    sent = await looking_up
    await asyncio.wait([sent.answer])
    reply = _answered(call, request, sent, sent.answer)
    return await reply if isinstance(reply, Awaitable) else reply


async def _sent_at_length(
    call: Call, long: LongProduce, before: "asyncio.Future[Any] | None"
) -> tuple[ProduceRequest, _Sent]:
    """Read a request beside the event loop, and append its batches after the previous request's.

    Raises as `_looked_up`, and InvalidRequestError.
    """

    def read() -> tuple[ProduceRequest, int]:
        request = read_produce_request(call.reader(), call.version)
        return request, request.items_count

    request = await long.read(read)
    image = await call.gateway.newest_image()

    def judged() -> _Judged:
        refused = _refused(call, request)
        if refused is not None:
            return _Judged([], [], [refused] * request.parts_count)
        return _judged(call, request, image)

    found = await long.step(judged)
    for start in range(0, len(found.slots), CHECKED_AT_ONCE):
        slots, now_ms = found.slots[start : start + CHECKED_AT_ONCE], call.gateway.clock.now_ms()
        await long.step(partial(check_ahead, slots, image, now_ms))
    await long.step(found.drop_refused)
    await _ended(before)
    return request, _append(call, found)


async def _answered_at_length(
    call: Call, long: LongProduce, sending: "asyncio.Future[tuple[ProduceRequest, _Sent]]"
) -> Reply:
    session = call.session
    with closing(long):
        request, sent = await sending
        await asyncio.wait([sent.answer])
        committed = sent.answer.result()
        outcomes = await long.step(lambda: sent.all(committed))
        if await long.step(lambda: _has_lost_topics(outcomes)):
            image = await call.gateway.newest_image()
            await long.step(lambda: _judge_again(call, request, outcomes, image))
        _throttle(call, await long.step(lambda: _some_places(request)))
        if session.produced is sending:
            session.produced = None  # else it would keep all the parts in memory
        return await long.step(lambda: _written(call, request, outcomes))


def _answered(
    call: Call, request: ProduceRequest, sent: _Sent, done: "asyncio.Future[list[_Committed]]"
) -> Reply | Awaitable[Reply]:
    """Return the answer; topics that were deleted meanwhile are first looked up again."""
    outcomes = sent.all(done.result())
    if _has_lost_topics(outcomes):
        return _looked_again(call, request, outcomes)
    return _replied(call, request, outcomes)


def _has_lost_topics(outcomes: Iterable[Outcome]) -> bool:
    return any(isinstance(one, UnknownTopicError) for one in outcomes)


async def _looked_again(call: Call, request: ProduceRequest, outcomes: list[Outcome]) -> Reply:
    """Look the topics that were deleted meanwhile up again.

    It reads the newest image, so the next request finds new topics of these names.
    """
    _judge_again(call, request, outcomes, await call.gateway.newest_image())
    return _replied(call, request, outcomes)


def _judge_again(
    call: Call, request: ProduceRequest, outcomes: list[Outcome], image: Image
) -> None:
    """Replace the errors of topics that were deleted meanwhile by those that clients expect."""
    topics = [topic for topic, parts in request.topics for _ in parts]
    for place, (outcome, topic) in enumerate(zip(outcomes, topics, strict=True)):
        if isinstance(outcome, UnknownTopicError):
            refused = _refusal(call, topic, asked_topic(image, topic))
            outcomes[place] = refused or outcome


def _replied(call: Call, request: ProduceRequest, outcomes: Sequence[Outcome]) -> Reply:
    if call.gateway.throttle.is_on:
        _throttle(call, _some_places(request))
    return _written(call, request, outcomes)


def _written(call: Call, request: ProduceRequest, outcomes: Sequence[Outcome]) -> Reply:
    """Return the answer, None with acks=0; its throttle time is the session's.

    Raises InvalidRequestError if a part has failed with acks=0; StorageError if no client is at
    fault for it.
    """
    errors = [one for one in outcomes if not isinstance(one, Appended)]
    failure = next((one for one in errors if isinstance(one, OWN_FAILURES)), None)
    if request.acks == 0:
        if errors:
            kind = InvalidRequestError if failure is None else StorageError
            told = message_of(failure or errors[0])
            raise kind(f"a produce with acks=0 failed: {told}") from failure
        return None
    if failure is not None:
        tell(call, failure)
    found = written_produce_answer(
        call.writer(), call.version, request.topics, outcomes, call.session.throttle_ms
    )
    return [found]


def _throttle(call: Call, places: Iterable[_Place]) -> None:
    """Note the throttle time of a request that is answered, and has parts at these places."""
    session, throttle, image = call.session, call.gateway.throttle, call.gateway.topics.last_seen
    if throttle.is_on and image is not None:
        session.throttle_ms = max(session.throttle_ms, throttle.time_ms(_logs(image, places)))


def _some_places(request: ProduceRequest) -> Sequence[_Place]:
    return some_of([(topic, one.partition) for topic, parts in request.topics for one in parts])


def _logs(image: Image, places: Iterable[_Place]) -> Iterator[PartitionLog]:
    """Return the logs of partitions whose topics exist."""
    for name, number in places:
        known = asked_topic(image, name)
        topic = None if known is None else image.topic(known.topic_id)
        if topic is not None and topic.is_open:
            yield topic.partition(number)
