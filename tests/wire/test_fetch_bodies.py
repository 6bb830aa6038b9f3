"""Fetch's request, read by hand, is the one of kio's schemas."""

import contextlib
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.static.primitive import i32Timedelta

from sparklog.errors import InvalidRequestError
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from sparklog.wire.handlers.records.fetch_bodies import (
    FetchAsked,
    PartAsked,
    TopicAsked,
    read_fetch_request,
)
from sparklog.wire.protocol.versions import APIS, ApiKey
from tests.wire.bodies import reader_of
from tests.wire.requests import body as request_of
from tests.wire.requests import encoded, part

API = APIS[ApiKey.FETCH]
VERSIONS = st.integers(API.min_version, API.max_version)
INT32 = st.integers(-1, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
NAMES = st.text(max_size=5) | st.just("x" * 200)
PARTS = st.lists(st.builds(PartAsked, INT32, INT32, INT64, INT32, INT32), max_size=3)
TOPICS = st.lists(st.tuples(NAMES, st.uuids(), PARTS), max_size=3)
ISOLATION = [READ_UNCOMMITTED, READ_COMMITTED]
ASKED = st.builds(
    FetchAsked,
    st.integers(0, 2**31 - 1),
    INT32,
    INT32,
    st.sampled_from(ISOLATION),
    INT32,
    st.just(()),
    NAMES,
)

Topics = list[tuple[str, UUID, list[PartAsked]]]


def read(version: int, body: bytes) -> FetchAsked:
    return read_fetch_request(reader_of(ApiKey.FETCH, version, body), version)


def by_kio(version: int, asked: FetchAsked, topics: Topics) -> bytes:
    """The request's bytes; its session forgets the partitions that it also names."""

    def made(kind: str, **fields: Any) -> Any:
        return part(ApiKey.FETCH, version, kind, **fields)

    found: list[Any] = []
    forgotten: list[Any] = []
    for name, uuid, parts in topics:
        partitions = [
            made(
                "FetchPartition",
                partition=one.partition,
                fetch_offset=one.offset,
                partition_max_bytes=one.max_bytes,
                log_start_offset=7,
                current_leader_epoch=one.leader_epoch,
                last_fetched_epoch=one.last_epoch,
                replica_directory_id=UUID(int=7),
            )
            for one in parts
        ]
        named = {"topic": name, "topic_id": uuid}
        found.append(made("FetchTopic", partitions=tuple(partitions), **named))
        numbers = tuple(one.partition for one in parts)
        forgotten += [made("ForgottenTopic", partitions=numbers, **named)] if version >= 7 else []
    request = request_of(
        ApiKey.FETCH,
        version,
        max_wait=i32Timedelta.parse(timedelta(milliseconds=asked.max_wait_ms)),
        min_bytes=asked.min_bytes,
        max_bytes=asked.max_bytes,
        isolation_level=ISOLATION.index(asked.isolation),
        topics=tuple(found),
        session_id=5,
        session_epoch=asked.session_epoch,
        forgotten_topics_data=tuple(forgotten),
        rack_id=asked.rack,
        cluster_id="someone",
    )
    return encoded(request)


def as_read(version: int, asked: FetchAsked, topics: Topics) -> FetchAsked:
    """The request as the reader returns it: fields that its version does not have are unknown."""

    def part(one: PartAsked) -> PartAsked:
        one = one if version >= 12 else one._replace(last_epoch=-1)
        return one if version >= 9 else one._replace(leader_epoch=-1)

    found = [
        TopicAsked(uuid.bytes if version >= 13 else name, [part(one) for one in parts])
        for name, uuid, parts in topics
    ]
    asked = asked if version >= 11 else asked._replace(rack="")
    asked = asked if version >= 7 else asked._replace(session_epoch=-1)
    return asked._replace(topics=found)


ONE = FetchAsked(0, 1, 0, READ_COMMITTED, 0, (), "")
ONE_TOPIC: Topics = [("t", UUID(int=1), [PartAsked(0, 0, 0, 0, 0)])]


class TestRequest:
    @example(API.max_version, ONE, ONE_TOPIC)
    @given(VERSIONS, ASKED, TOPICS)
    def test_is_read_as_it_was_sent(self, version: int, asked: FetchAsked, topics: Topics) -> None:
        assert read(version, by_kio(version, asked, topics)) == as_read(version, asked, topics)

    @given(VERSIONS, ASKED, TOPICS, st.data())
    def test_is_refused_if_it_is_cut(
        self, version: int, asked: FetchAsked, topics: Topics, data: st.DataObject
    ) -> None:
        body = by_kio(version, asked, topics)
        with pytest.raises(InvalidRequestError):
            read(version, body[: data.draw(st.integers(0, len(body) - 1))])

    @given(VERSIONS, ASKED, TOPICS, st.data())
    def test_is_read_or_refused_whatever_it_is(
        self, version: int, asked: FetchAsked, topics: Topics, data: st.DataObject
    ) -> None:
        body = bytearray(by_kio(version, asked, topics))
        for _ in range(3):
            at = data.draw(st.integers(0, len(body) - 1))
            body[at] = data.draw(st.integers(0, 255))
        with contextlib.suppress(InvalidRequestError):
            read(version, bytes(body))
