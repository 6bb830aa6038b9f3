"""Fetch's request, read by hand, is the one of kio's schemas."""

import contextlib
import io
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta

from sparklog.errors import InvalidRequestError
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from sparklog.wire.handlers.records.fetch_bodies import (
    FetchAsked,
    PartAsked,
    TopicAsked,
    read_fetch_request,
)
from sparklog.wire.protocol.reading import Reader
from sparklog.wire.protocol.versions import APIS, ApiKey

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
    """A request whose body begins behind two bytes."""
    reader = Reader(memoryview(b"??" + body), 2, is_flexible=version >= API.flexible_from)
    return read_fetch_request(reader, version)


def by_kio(version: int, asked: FetchAsked, topics: Topics) -> bytes:
    """The request's bytes; its session forgets the partitions that it also names."""
    kio = import_module(f"kio.schema.fetch.v{version}.request")

    def named(name: str, uuid: UUID) -> dict[str, Any]:
        return {"topic_id": uuid} if version >= 13 else {"topic": name}

    def since(first: int, **fields: Any) -> dict[str, Any]:
        return fields if version >= first else {}

    found = tuple(
        kio.FetchTopic(
            partitions=tuple(
                kio.FetchPartition(
                    partition=one.partition,
                    fetch_offset=one.offset,
                    partition_max_bytes=one.max_bytes,
                    **since(5, log_start_offset=7),
                    **since(9, current_leader_epoch=one.leader_epoch),
                    **since(12, last_fetched_epoch=one.last_epoch),
                    **since(17, replica_directory_id=UUID(int=7)),
                )
                for one in parts
            ),
            **named(name, uuid),
        )
        for name, uuid, parts in topics
    )
    forgotten = (
        ()
        if version < 7
        else tuple(
            kio.ForgottenTopic(
                partitions=tuple(one.partition for one in parts), **named(name, uuid)
            )
            for name, uuid, parts in topics
        )
    )
    request = kio.FetchRequest(
        max_wait=i32Timedelta.parse(timedelta(milliseconds=asked.max_wait_ms)),
        min_bytes=asked.min_bytes,
        max_bytes=asked.max_bytes,
        isolation_level=ISOLATION.index(asked.isolation),
        topics=found,
        **since(
            7, session_id=5, session_epoch=asked.session_epoch, forgotten_topics_data=forgotten
        ),
        **since(11, rack_id=asked.rack),
        **since(12, cluster_id="someone"),
    )
    out = io.BytesIO()
    entity_writer(type(request))(out, request)
    return out.getvalue()


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


class TestRequest:
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
