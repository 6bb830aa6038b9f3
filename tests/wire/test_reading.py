"""Bodies that are read and written by hand are those of kio's schemas."""

import contextlib
import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.static.primitive import i64Timedelta

from sparklog.coordinator.requests import CommitRequest, CommittedOffset
from sparklog.errors import InvalidRequestError
from sparklog.model import TopicPartition
from sparklog.wire.handlers.groups.offset_commit import (
    CommitTopic,
    read_commit_request,
    written_commit_answer,
)
from sparklog.wire.protocol.messages import encode
from sparklog.wire.protocol.reading import ManyItemsError, Reader
from sparklog.wire.protocol.versions import APIS, ApiKey
from sparklog.wire.protocol.writing import Writer
from tests.wire.bodies import reader_of
from tests.wire.grouping import commit_topic
from tests.wire.requests import body as request_of
from tests.wire.requests import encoded

API = APIS[ApiKey.OFFSET_COMMIT]
VERSIONS = st.integers(API.min_version, API.max_version)
INT32 = st.integers(0, 2**31 - 1)
TEXTS = st.text(max_size=5) | st.just("x" * 200)
TOPICS = st.lists(
    st.tuples(
        TEXTS,
        st.lists(st.tuples(INT32, st.integers(0, 2**63 - 1), INT32, st.none() | TEXTS), max_size=3),
    ),
    max_size=3,
)


def read(version: int, body: bytes) -> tuple[CommitRequest, list[CommitTopic]]:
    return read_commit_request(reader_of(ApiKey.OFFSET_COMMIT, version, body), version)


def by_kio(version: int, topics: Any, instance: str | None, retention_ms: int) -> bytes:
    request = request_of(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id="readers",
        generation_id_or_member_epoch=3,
        member_id="ada",
        group_instance_id=instance,
        retention_time=i64Timedelta.parse(timedelta(milliseconds=retention_ms)),
        topics=tuple(commit_topic(version, name, *places) for name, places in topics),
    )
    return encoded(request)


A_ZERO_AS_METADATA = [("t", [(0, 0, 0, "\0")])]
"""Its bytes look like those of a topic without metadata."""


class TestOffsetCommit:
    @example(API.max_version, A_ZERO_AS_METADATA, None, -1)
    @given(VERSIONS, TOPICS, st.none() | TEXTS, st.integers(-1, 9))
    def test_is_read_as_it_was_sent(
        self, version: int, topics: Any, instance: str | None, retention_ms: int
    ) -> None:
        found, offsets = read(version, by_kio(version, topics, instance, retention_ms))
        assert found == CommitRequest(
            "readers",
            {},
            3,
            "ada",
            instance if version >= 7 else None,
            retention_ms if version <= 4 else -1,
            version,
        )
        assert [(one.name, one.offsets) for one in offsets] == [
            (
                name,
                [
                    (
                        TopicPartition(name, partition),
                        CommittedOffset(offset, epoch if version >= 6 else -1, metadata or ""),
                    )
                    for partition, offset, epoch, metadata in places
                ],
            )
            for name, places in topics
        ]

    @pytest.mark.parametrize(
        "places",
        [
            [(1, 2, 3, ""), (4, 5, 6, None)],
            [(1, 2, 3, ""), (4, 5, 6, "note")],
            [(1, 2, 3, "x" * 200), (4, 5, 6, "")],
            [(partition, 2, 3, "") for partition in range(200)],
        ],
        ids=["without metadata", "then with metadata", "first with metadata", "many"],
    )
    def test_is_read_with_and_without_metadata(self, places: Any) -> None:
        _, [found] = read(9, by_kio(9, [("flights", places)], None, -1))
        assert [(place.partition, *offset[:3]) for place, offset in found.offsets] == [
            (*numbers, metadata or "") for *numbers, metadata in places
        ]

    @pytest.mark.parametrize(
        ("name", "why"), [(b"\x08\xfflights", "no UTF-8"), (b"\0", "null before")]
    )
    def test_is_refused_if_a_name_is_no_string(self, name: bytes, why: str) -> None:
        body = by_kio(9, [("flights", [(1, 2, 3, "")])], None, -1)
        with pytest.raises(InvalidRequestError, match=why):
            read(9, body.replace(b"\x08flights", name))

    @given(VERSIONS, TOPICS, st.integers(0, 100))
    def test_is_answered_as_the_schemas_say(self, version: int, topics: Any, code: int) -> None:
        _, offsets = read(version, by_kio(version, topics, None, -1))
        codes = {place: code for topic in offsets for place, _ in topic.offsets}
        told = [
            {
                "name": name,
                "partitions": [{"partition_index": one[0], "error_code": code} for one in places],
            }
            for name, places in topics
        ]
        writer = Writer(is_flexible=version >= API.flexible_from)
        expected = encode(ApiKey.OFFSET_COMMIT, version, {"topics": told})
        assert written_commit_answer(writer, version, offsets, codes) == expected

    @given(VERSIONS, st.integers(0, 60))
    def test_is_refused_if_it_is_cut(self, version: int, size: int) -> None:
        body = by_kio(version, [("flights", [(1, 2, 3, "note")])], "x", -1)
        with pytest.raises(InvalidRequestError):
            read(version, body[: min(size, len(body) - 1)])

    @given(VERSIONS, st.binary(max_size=60))
    def test_is_read_or_refused_whatever_it_is(self, version: int, body: bytes) -> None:
        with contextlib.suppress(InvalidRequestError):
            read(version, body)


class TestReader:
    def reader(self, body: bytes, *, is_flexible: bool = True) -> Reader:
        return Reader(memoryview(body), 0, is_flexible=is_flexible)

    def test_passes_over_tagged_fields(self) -> None:
        reader = self.reader(b"\x02\x63\x03abc\x07\x00\x02x")
        reader.tags()
        assert reader.string() == "x"

    @pytest.mark.parametrize(
        "body",
        [b"\x01\x63\x09abc", b"\x01\x80", b"\x80\x80\x80\x80\x80\x01", b"\x65" + b"\x63\0" * 101],
    )
    def test_refuses_tagged_fields_beyond_the_end_and_too_many(self, body: bytes) -> None:
        with pytest.raises(InvalidRequestError):
            self.reader(body).tags()

    def test_refuses_more_items_than_it_can_read_beside_other_requests(self) -> None:
        reader = self.reader(struct.pack(">ii", 1, 1_000_000) + bytes(1_000_000), is_flexible=False)
        assert reader.array(1) == 1
        with pytest.raises(InvalidRequestError, match="1000001 items in arrays"):
            reader.array(1)

    def test_tells_that_there_are_more_items_than_it_may_read(self) -> None:
        reader = Reader(memoryview(b"\x02\x03abc"), 0, is_flexible=True, items_max=2)
        assert reader.array(1) == 1
        with pytest.raises(ManyItemsError):
            reader.array(1)

    @pytest.mark.parametrize(
        ("body", "why"), [(b"\0", "null before"), (b"\x02\xff", "no UTF-8"), (b"\x05abc", "cut")]
    )
    def test_refuses_a_string(self, body: bytes, why: str) -> None:
        with pytest.raises(InvalidRequestError, match=why):
            self.reader(body).string()

    @pytest.mark.parametrize("count", [-1, 4])
    def test_refuses_an_array(self, count: int) -> None:
        body = struct.pack(">i", count) + bytes(3)
        with pytest.raises(InvalidRequestError, match="an array of"):
            self.reader(body, is_flexible=False).array(1)
