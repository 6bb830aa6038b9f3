"""Produce: a client's record batches to the log, stored as they came.

A request takes its place behind the requests before it in the call itself, so that batches of a
connection land in the order they came in. It is answered when its commit is durable: acks=1 as
acks=all. With acks=0 there is no answer, and an error closes the connection, as a broker does it.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import ErrorCode, InvalidRequestError, SparklogError, UnknownTopicError
from sparklog.group_commit.appends import Append, Appended
from sparklog.metadata.image import Image
from sparklog.model import TopicDescription
from sparklog.tokens import Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.topic_ids import with_uuid
from sparklog.wire.writing import Writer

NO_OFFSET: Final = -1
ALLOWED_ACKS: Final = (-1, 0, 1)
BY_ID_FROM: Final = 13


class Failed(NamedTuple):
    """Why a batch was not appended."""

    error_code: int
    message: str


class _Part(NamedTuple):
    """One partition of a request: its topic, by name or by id, its number, and its batch."""

    topic: str | UUID
    partition: int
    batch: bytes | None


Outcome = Appended | SparklogError | Failed


def produce(call: Call) -> Awaitable[Reply]:
    """Return the answer, to be awaited. The order of arrival is that of the calls."""
    request = call.request()
    parts = [
        _Part(_topic(topic, call.version), one.index, one.records)
        for topic in request.topic_data
        for one in topic.partition_data
    ]
    if request.acks not in ALLOWED_ACKS:
        refused = Failed(
            ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: allowed are -1, 0, 1"
        )
        return _refused(call, request, [refused] * len(parts))
    # An older image does: the commit looks at the newest one, and refuses a topic that has gone.
    session, image = call.session, call.gateway.topics.last_seen
    is_behind = session.produced is not None and not session.produced.done()
    if is_behind or image is None or not all(_known(image, one.topic) for one in parts):
        session.produced = asyncio.ensure_future(_looked_up(call, parts, session.produced))
        return _answered_later(call, request, session.produced)
    return _answered(call, request, _append(call, parts, image))


def _topic(topic: Any, version: int) -> str | UUID:
    """Return a topic's id or name; null is the id of no topic."""
    return topic.topic_id or UUID(int=0) if version >= BY_ID_FROM else topic.name


def _known(image: Image, topic: str | UUID) -> TopicDescription | None:
    return with_uuid(image, topic) if isinstance(topic, UUID) else image.names.get(topic)


class _Sent(NamedTuple):
    """The parts of a request, the slots of those that are appended, and the other slots' errors."""

    answer: "asyncio.Future[list[Appended | SparklogError]]"
    parts: Sequence[_Part]
    slots: list[int]
    outcomes: list[Outcome]


def _append(call: Call, parts: Sequence[_Part], image: Image) -> _Sent:
    """Pass the batches on, except those without a topic."""
    outcomes: list[Outcome] = []
    appends: list[Append] = []
    slots: list[int] = []
    for slot, one in enumerate(parts):
        known = _known(image, one.topic)
        refused = _not_found(call, one.topic, known)
        outcomes.append(refused or Failed(ErrorCode.NONE, ""))
        if known is not None and refused is None:
            appends.append(Append(known.topic_id, one.partition, one.batch or b""))
            slots.append(slot)
    answer = call.gateway.appends.append(appends, produce_version=call.version)
    return _Sent(answer, parts, slots, outcomes)


def _not_found(call: Call, topic: str | UUID, known: TopicDescription | None) -> Failed | None:
    """Return why a client may not produce to a topic; None if it may."""
    name = known.name if known is not None else topic
    if isinstance(name, str) and not call.allows(Scope.WRITE, name):
        return Failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no write access to {name!r}")
    if name == OFFSETS_TOPIC:
        return Failed(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by coordinators alone")
    if known is not None:
        return None
    if isinstance(topic, UUID):
        return Failed(ErrorCode.UNKNOWN_TOPIC_ID, f"unknown topic '{topic}'")
    return Failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"unknown topic {topic!r}")


async def _looked_up(
    call: Call, parts: Sequence[_Part], before: "asyncio.Future[_Sent] | None"
) -> _Sent:
    """Look topics up in the newest image, then pass the batches on, after the previous request."""
    if before is not None:
        await asyncio.wait([before])
    return _append(call, parts, await call.gateway.newest_image())


async def _answered_later(call: Call, request: Any, sent: "asyncio.Future[_Sent]") -> Reply:
    return await _answered(call, request, await sent)


async def _answered(call: Call, request: Any, sent: _Sent) -> Reply:
    outcomes = list(sent.outcomes)
    for slot, outcome in zip(sent.slots, await sent.answer, strict=True):
        outcomes[slot] = outcome
    if any(isinstance(one, UnknownTopicError) for one in outcomes):
        await _look_again(call, sent.parts, outcomes)
    return await _refused(call, request, outcomes)


async def _look_again(call: Call, parts: Sequence[_Part], outcomes: list[Outcome]) -> None:
    """Look for topics that were deleted meanwhile; the next request finds their successors."""
    image = await call.gateway.newest_image()
    for slot, (outcome, part) in enumerate(zip(outcomes, parts, strict=True)):
        if isinstance(outcome, UnknownTopicError):
            refused = _not_found(call, part.topic, _known(image, part.topic))
            outcomes[slot] = refused or outcome


async def _refused(call: Call, request: Any, outcomes: Sequence[Outcome]) -> Reply:
    if request.acks == 0:
        errors = [one for one in outcomes if _code(one) != ErrorCode.NONE]
        if errors:
            raise InvalidRequestError(f"a produce with acks=0 failed: {_message(errors[0])}")
        return None
    return [_written(call, request, outcomes)]


def _code(outcome: Outcome) -> int:
    if isinstance(outcome, Failed):
        return outcome.error_code
    return outcome.code if isinstance(outcome, SparklogError) else ErrorCode.NONE


def _message(outcome: Outcome) -> str | None:
    if isinstance(outcome, Failed):
        return outcome.message
    return outcome.message if isinstance(outcome, SparklogError) else None


def _written(call: Call, request: Any, outcomes: Sequence[Outcome]) -> bytes:
    """Return the body of the answer (ProduceResponse.json)."""
    version, writer = call.version, call.writer()
    found = iter(outcomes)
    writer.array(len(request.topic_data))
    for topic in request.topic_data:
        if version >= BY_ID_FROM:
            writer.raw((topic.topic_id or UUID(int=0)).bytes)
        else:
            writer.string(topic.name)
        writer.array(len(topic.partition_data))
        for one in topic.partition_data:
            _write_partition(writer, version, one.index, next(found))
        writer.tags()
    writer.int32(0)  # throttle time
    writer.tags()
    return bytes(writer.data)


def _write_partition(writer: Writer, version: int, partition: int, outcome: Outcome) -> None:
    done = outcome if isinstance(outcome, Appended) else Appended(NO_OFFSET, NO_OFFSET, NO_OFFSET)
    writer.int32(partition)
    writer.int16(_code(outcome))
    writer.int64(done.base_offset)
    writer.int64(done.log_append_time_ms)
    if version >= 5:
        writer.int64(done.log_start_offset)
    if version >= 8:
        _write_record_errors(writer, getattr(outcome, "records", ()))
        writer.string(_message(outcome))
    writer.tags()


def _write_record_errors(writer: Writer, places: Sequence[int]) -> None:
    """Name the records for which a batch is refused (KIP-467).

    Clients tell those apart whose batch is refused for another record. The partition's message is
    that of each.
    """
    writer.array(len(places))
    for place in places:
        writer.int32(place)
        writer.string(None)
        writer.tags()
