"""Produce's bodies, read and written by hand, are those of kio's schemas."""

import contextlib
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import ErrorCode, InvalidRecordError, InvalidRequestError
from sparklog.group_commit.append_slots import Appended
from sparklog.wire.handlers.records.produce_bodies import (
    Failed,
    Outcome,
    Part,
    ProduceRequest,
    TopicParts,
    read_produce_request,
    written_produce_answer,
)
from sparklog.wire.protocol.messages import encode
from sparklog.wire.protocol.reading import Reader
from sparklog.wire.protocol.versions import APIS, ApiKey
from sparklog.wire.protocol.writing import Writer
from tests.wire.bodies import reader_of
from tests.wire.requests import SOON, encoded
from tests.wire.requests import body as request_of
from tests.wire.requests import part as part_of

API = APIS[ApiKey.PRODUCE]
BY_ID = 13
VERSIONS = st.integers(API.served_from, API.max_version)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
PARTS = st.lists(st.tuples(INT32, st.none() | st.binary(max_size=200)), max_size=3)
NAMES = st.text(max_size=5) | st.just("x" * 200)
TOPICS = st.lists(st.tuples(NAMES, st.uuids(), PARTS), max_size=3)
OUTCOMES = st.one_of(
    st.builds(Appended, INT64, INT64, INT64),
    st.builds(Failed, st.sampled_from(ErrorCode), NAMES),
    st.builds(lambda places: InvalidRecordError("no key", records=places), st.lists(INT32)),
)

Sent = list[tuple[str, UUID, list[tuple[int, bytes | None]]]]


def read(version: int, body: bytes) -> ProduceRequest:
    return read_produce_request(reader_of(ApiKey.PRODUCE, version, body), version)


def by_kio(version: int, acks: int, topics: Sent, transactional_id: str | None = None) -> bytes:
    def made(kind: str, **fields: Any) -> Any:
        return part_of(ApiKey.PRODUCE, version, kind, **fields)

    data = [
        made(
            "TopicProduceData",
            topic_id=uuid,
            name=name,
            partition_data=tuple(
                made("PartitionProduceData", index=number, records=batch) for number, batch in parts
            ),
        )
        for name, uuid, parts in topics
    ]
    fields = {"acks": acks, "timeout": SOON, "topic_data": tuple(data)}
    return encoded(request_of(ApiKey.PRODUCE, version, transactional_id=transactional_id, **fields))


def read_as(version: int, topics: Sent) -> list[TopicParts]:
    """The topics as the reader returns them."""
    return [
        TopicParts(
            uuid.bytes if version >= BY_ID else name,
            [Part(number, None if batch is None else memoryview(batch)) for number, batch in parts],
        )
        for name, uuid, parts in topics
    ]


class TestRequest:
    @given(VERSIONS, st.sampled_from([-1, 0, 1]), TOPICS, st.none() | NAMES)
    def test_is_read_as_it_was_sent(
        self, version: int, acks: int, topics: Sent, transactional_id: str | None
    ) -> None:
        found = read(version, by_kio(version, acks, topics, transactional_id))

        assert found == ProduceRequest(transactional_id, acks, read_as(version, topics))
        assert found.parts_count == sum(len(parts) for _, _, parts in topics)

    def test_has_the_batches_where_they_lie_in_the_frame(self) -> None:
        frame = memoryview(by_kio(9, -1, [("flights", UUID(int=0), [(0, b"batch")])]))
        [topic] = read_produce_request(Reader(frame, 0, is_flexible=True), 9).topics
        [part] = topic.parts

        assert part.batch is not None
        assert part.batch.obj is frame.obj

    @given(VERSIONS, st.integers(0, 80))
    def test_is_refused_if_it_is_cut(self, version: int, size: int) -> None:
        body = by_kio(version, -1, [("flights", UUID(int=7), [(1, b"a batch"), (2, b"another")])])
        with pytest.raises(InvalidRequestError):
            read(version, body[: min(size, len(body) - 1)])

    @given(VERSIONS, st.binary(max_size=80))
    def test_is_read_or_refused_whatever_it_is(self, version: int, body: bytes) -> None:
        with contextlib.suppress(InvalidRequestError):
            read(version, body)

    def test_with_a_batch_beyond_the_end_is_refused(self) -> None:
        body = struct.pack(">hhi", -1, -1, 30_000) + struct.pack(">i", 1) + b"\0\1a"
        body += struct.pack(">iii", 1, 0, 9) + b"a batch"
        with pytest.raises(InvalidRequestError, match="a field of 9 bytes"):
            read(8, body)


class TestAnswer:
    @given(VERSIONS, TOPICS, st.data())
    def test_is_what_the_schemas_say(self, version: int, topics: Sent, data: st.DataObject) -> None:
        outcomes = [[data.draw(OUTCOMES) for _ in parts] for _, _, parts in topics]
        asked = read_as(version, topics)
        writer = Writer(is_flexible=version >= API.flexible_from)
        flat = [one for of_topic in outcomes for one in of_topic]
        told = [
            {
                "name": name,
                "topic_id": uuid,
                "partition_responses": [
                    partition_told(number, outcome)
                    for (number, _), outcome in zip(parts, of_topic, strict=True)
                ],
            }
            for (name, uuid, parts), of_topic in zip(topics, outcomes, strict=True)
        ]
        expected = encode(ApiKey.PRODUCE, version, {"responses": told, "throttle_time": 0})
        assert written_produce_answer(writer, version, asked, flat, 0) == expected

    def test_has_a_message_for_each_of_a_thousand_records(self) -> None:
        less, all_told, more = [
            answer_size(InvalidRecordError("why", records=tuple(range(count))))
            for count in (999, 1000, 1001)
        ]
        place_and_length, message = 4 + 2, 3
        assert all_told - less == place_and_length + message
        assert more - all_told == place_and_length

    def test_has_no_more_messages_if_several_batches_are_refused(self) -> None:
        refused = InvalidRecordError("why", records=tuple(range(1000)))
        one, both = answer_size(refused), answer_size(refused, refused)
        place_and_length, own, numbers = 4 + 2, 3, 4 + 2 + 3 * 8 + 4 + 2 + 3
        assert both - one == 1000 * place_and_length + numbers
        assert one > 1000 * (place_and_length + own)


def answer_size(*outcomes: Outcome) -> int:
    """How long an answer of version 8 is."""
    topics = [TopicParts("t", [Part(number, None) for number, _ in enumerate(outcomes)])]
    return len(written_produce_answer(Writer(is_flexible=False), 8, topics, outcomes, 0))


def partition_told(number: int, outcome: Outcome) -> dict[str, Any]:
    """One partition of an answer, as a mapping for `encode`."""
    if isinstance(outcome, Appended):
        return {
            "index": number,
            "error_code": 0,
            "base_offset": outcome.base_offset,
            "log_append_time": outcome.log_append_time_ms,
            "log_start_offset": outcome.log_start_offset,
            "error_message": None,
        }
    places: tuple[int, ...] = getattr(outcome, "records", ())
    return {
        "index": number,
        "error_code": int(outcome.error_code if isinstance(outcome, Failed) else outcome.code),
        "base_offset": -1,
        "log_append_time": -1,
        "log_start_offset": -1,
        "record_errors": [
            {"batch_index": place, "batch_index_error_message": outcome.message} for place in places
        ],
        "error_message": outcome.message,
    }
