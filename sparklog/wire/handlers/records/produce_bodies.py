"""The bodies of Produce, read and written by hand (ProduceRequest.json, ProduceResponse.json).

Of all requests this one comes most often, and it is the largest: its batches are not copied.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from sparklog.errors import ErrorCode, SparklogError
from sparklog.group_commit.append_slots import Appended
from sparklog.record import layout
from sparklog.wire.protocol.reading import Reader
from sparklog.wire.protocol.writing import Writer, shortened

BY_ID_SINCE: Final = 13
START_SINCE: Final = 5
"""The first version whose answer has the log start offset."""
ERRORS_SINCE: Final = 8
"""The first version whose answer names records and reasons (KIP-467)."""
RECORD_MESSAGES_MAX: Final = 1_000
"""How many refused records of an answer have a message of their own, at most."""
NOT_APPENDED: Final = Appended(-1, -1, -1)

_LOW_ATTRIBUTES: Final = layout.ATTRIBUTES + 1
"""Where the lower byte of a batch's attributes is."""
_ACKS: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">i")
_ANSWER: Final = struct.Struct(">ihqq")
_ANSWER_WITH_START: Final = struct.Struct(">ihqqq")


class Failed(NamedTuple):
    """Why a batch was not appended."""

    error_code: int
    message: str


Outcome = Appended | SparklogError | Failed


class Part(NamedTuple):
    """One partition of a topic: its number, and its batch."""

    partition: int
    batch: memoryview | None


class TopicParts(NamedTuple):
    """One topic of a request, by name or by id, and its parts in their order."""

    topic: str | bytes
    parts: Sequence[Part]


class ProduceRequest(NamedTuple):
    """A request, without its timeout: a commit takes the time that it needs."""

    transactional_id: str | None
    acks: int
    topics: Sequence[TopicParts]

    @property
    def parts_count(self) -> int:
        """How many parts all topics have."""
        return sum(len(one.parts) for one in self.topics)

    @property
    def items_count(self) -> int:
        """How many topics and parts there are."""
        return len(self.topics) + self.parts_count

    @property
    def is_transactional(self) -> bool:
        """True if a batch has the transactional bit."""
        return any(_is_transactional(part.batch) for one in self.topics for part in one.parts)


def read_produce_request(reader: Reader, version: int) -> ProduceRequest:
    """Return a request; its batches are views of the frame. Raises InvalidRequestError."""
    transactional_id = reader.string_or_null()
    acks, _ = reader.numbers(_ACKS)
    topics: list[TopicParts] = []
    for _ in range(reader.array(least_bytes=2)):
        topic = reader.uuid() if version >= BY_ID_SINCE else reader.string()
        topics.append(TopicParts(topic, list(_parts(reader))))
        reader.tags()
    reader.tags()
    return ProduceRequest(transactional_id, acks, topics)


def _is_transactional(batch: memoryview | None) -> bool:
    """Return True if a batch has the transactional bit. The batch may be damaged."""
    if batch is None or len(batch) <= _LOW_ATTRIBUTES or batch[layout.MAGIC] != layout.MAGIC_V2:
        return False
    return bool(batch[_LOW_ATTRIBUTES] & layout.TRANSACTIONAL_MASK)


def _parts(reader: Reader) -> Iterator[Part]:
    for _ in range(reader.array(least_bytes=_PARTITION.size + 1)):
        (number,) = reader.numbers(_PARTITION)
        yield Part(number, reader.bytes_or_null())
        reader.tags()


def written_produce_answer(
    writer: Writer,
    version: int,
    topics: Sequence[TopicParts],
    outcomes: Sequence[Outcome],
    throttle_ms: int,
) -> bytearray:
    """Return the body of an answer: the outcome of each part, in the order of the request."""
    found = iter(outcomes)
    refused = sum([bool(getattr(one, "records", ())) for one in outcomes])
    messages = RECORD_MESSAGES_MAX // max(1, refused)
    without_errors = _without_errors(version, is_flexible=writer.is_flexible)
    writer.array(len(topics))
    for topic, parts in topics:
        if isinstance(topic, bytes):
            writer.raw(topic)
        else:
            writer.string(topic)
        writer.array(len(parts))
        for part in parts:
            outcome = next(found)
            if isinstance(outcome, Appended):
                _write_numbers(writer, version, part.partition, ErrorCode.NONE, outcome)
                writer.raw(without_errors)
            else:
                _write_refused(writer, version, part.partition, outcome, messages)
        writer.tags()
    writer.int32(throttle_ms)
    writer.tags()
    return writer.data


def _write_numbers(writer: Writer, version: int, partition: int, code: int, done: Appended) -> None:
    if version >= START_SINCE:
        writer.raw(_ANSWER_WITH_START.pack(partition, code, *done))
    else:
        writer.raw(_ANSWER.pack(partition, code, *done[:2]))


def _write_refused(
    writer: Writer, version: int, partition: int, outcome: SparklogError | Failed, messages: int
) -> None:
    _write_numbers(writer, version, partition, code_of(outcome), NOT_APPENDED)
    if version >= ERRORS_SINCE:
        told = message_of(outcome)
        _write_record_errors(writer, getattr(outcome, "records", ()), told, messages)
        writer.string(told)
    writer.tags()


@cache
def _without_errors(version: int, *, is_flexible: bool) -> bytes:
    """Return the bytes behind the numbers of a partition whose batch was appended."""
    writer = Writer(is_flexible=is_flexible)
    if version >= ERRORS_SINCE:
        writer.array(0)
        writer.string(None)
    writer.tags()
    return bytes(writer.data)


def _write_record_errors(
    writer: Writer, places: Sequence[int], told: str | None, messages: int
) -> None:
    """Write the places of the records because of which a batch is refused (KIP-467).

    So a client can tell these records from the other records of the batch. The first `messages` of
    them have the partition's message, the others none: librdkafka shows that of a record only, and
    a batch may have millions of records.
    """
    writer.array(len(places))
    for number, place in enumerate(places):
        writer.int32(place)
        writer.string(told if number < messages else None)
        writer.tags()


def code_of(outcome: Outcome) -> int:
    """Return the error code of an outcome, 0 if the batch was appended."""
    if isinstance(outcome, Failed):
        return outcome.error_code
    return outcome.code if isinstance(outcome, SparklogError) else ErrorCode.NONE


def message_of(outcome: Outcome) -> str | None:
    """Return why a batch was not appended; None if it was."""
    return None if isinstance(outcome, Appended) else shortened(outcome.message)
