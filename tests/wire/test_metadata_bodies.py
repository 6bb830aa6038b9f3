"""Metadata's request, read by hand, is the one of kio's schemas."""

import contextlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import InvalidRequestError
from sparklog.wire.handlers.admin.metadata_bodies import MetadataAsked, read_metadata_request
from sparklog.wire.protocol.messages import parse
from sparklog.wire.protocol.reading import ITEMS_MAX
from sparklog.wire.protocol.topic_ids import NO_TOPIC_ID
from sparklog.wire.protocol.versions import APIS, ApiKey
from tests.wire.bodies import reader_of
from tests.wire.requests import body as request_of
from tests.wire.requests import encoded, part

API = APIS[ApiKey.METADATA]
BY_ID = 10
FLEXIBLE = range(API.flexible_from, API.max_version + 1)
VERSIONS = st.integers(API.min_version, API.max_version)
NAMES = st.text(max_size=5) | st.sampled_from(["x" * 126, "x" * 127, "é" * 200])
IDS = st.none() | st.sampled_from([UUID(int=7), UUID(int=2**127)])
TOPICS = st.none() | st.lists(st.tuples(IDS, st.none() | NAMES), max_size=5)
FLAGS = st.tuples(st.booleans(), st.booleans(), st.booleans())

Topics = list[tuple[UUID | None, str | None]] | None
Flags = tuple[bool, bool, bool]
FEW: Topics = [(None, "flights"), (UUID(int=7), None), (None, "é" * 70)]


def read(version: int, body: bytes) -> MetadataAsked:
    return read_metadata_request(reader_of(ApiKey.METADATA, version, body), version)


def by_kio(version: int, topics: Topics, flags: Flags = (True, False, False)) -> bytes:
    """The request's bytes; a version without null or without ids has other topics instead."""
    found = [
        part(
            ApiKey.METADATA,
            version,
            "MetadataRequestTopic",
            topic_id=uuid,
            name=name if version >= BY_ID else name or "",
        )
        for uuid, name in topics or ()
    ]
    request = request_of(
        ApiKey.METADATA,
        version,
        topics=None if topics is None and version else tuple(found),
        allow_auto_topic_creation=flags[0],
        include_cluster_authorized_operations=flags[1],
        include_topic_authorized_operations=flags[2],
    )
    return encoded(request)


def read_by_kio(version: int, body: bytes) -> MetadataAsked:
    """The same request as kio reads it."""
    request = parse(ApiKey.METADATA, version, memoryview(body), 0)
    topics = dict.fromkeys(map(named, request.topics or ()))
    return MetadataAsked(
        None if request.topics is None or (version == 0 and not topics) else tuple(topics),
        getattr(request, "allow_auto_topic_creation", True),
        getattr(request, "include_cluster_authorized_operations", False),
        getattr(request, "include_topic_authorized_operations", False),
    )


def named(topic: Any) -> str | bytes:
    """The id of a topic in kio's request, or its name if it has no id."""
    uuid: UUID | None = getattr(topic, "topic_id", None)
    name: str | None = topic.name
    if uuid is not None:
        return uuid.bytes
    return NO_TOPIC_ID if name is None else name


class TestRequest:
    @given(VERSIONS, TOPICS, FLAGS)
    @example(13, [(None, "a"), (UUID(int=7), ""), (None, "b")], (False, True, True))
    @example(12, [(None, None), (None, ""), (None, "a"), (None, "a")], (True, False, False))
    @example(0, None, (True, False, False))
    @example(3, None, (True, False, False))
    @example(12, None, (False, False, True))
    def test_is_read_as_it_was_sent(self, version: int, topics: Topics, flags: Flags) -> None:
        body = by_kio(version, topics, flags)
        assert read(version, body) == read_by_kio(version, body)

    @given(VERSIONS, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4))
    @example(4, [(4 + 9 + 2 + 142, 2)])
    @example(12, [(0, 0)])
    def test_is_understood_or_refused_as_by_kio(
        self, version: int, changes: list[tuple[int, int]]
    ) -> None:
        """Goal: damaged bytes mean the same to both. Method: change bytes of a request."""
        body = bytearray(by_kio(version, FEW))
        for place, byte in changes:
            body[place % len(body)] = byte
        found: list[MetadataAsked | None] = [None, None]
        for place, function in enumerate((read, read_by_kio)):
            with contextlib.suppress(InvalidRequestError):
                found[place] = function(version, bytes(body))
        assert found[0] == found[1]

    @pytest.mark.parametrize("version", FLEXIBLE)
    def test_may_have_tagged_fields(self, version: int) -> None:
        tags = b"\x01\x63\x03abc"
        body = by_kio(version, [(None, "a"), (None, "b")])
        name = b"\x02a\0"
        body = body.replace(name, name[:-1] + tags)[:-1] + tags
        assert read(version, body).topics == ("a", "b")

    def test_of_version_0_without_topics_asks_for_all(self) -> None:
        assert read(0, by_kio(0, [])).topics is None
        assert read(0, b"\xff" * 4).topics is None
        assert read(1, by_kio(1, [])).topics == ()

    def test_names_a_topic_once_by_its_id_whatever_its_names_are(self) -> None:
        topics: Topics = [(UUID(int=7), None), (UUID(int=7), "a"), (UUID(int=7), "b")]
        assert read(12, by_kio(12, topics)).topics == (UUID(int=7).bytes,)

    @given(VERSIONS, st.integers(0, 300))
    def test_is_refused_if_it_is_cut(self, version: int, size: int) -> None:
        body = by_kio(version, FEW)
        with pytest.raises(InvalidRequestError):
            read(version, body[: min(size, len(body) - 1)])

    @pytest.mark.parametrize(
        ("version", "body", "why"),
        [
            (1, b"\xff\xff\xff\xfe", "an array of -2 items"),
            (1, b"\0\0\0\1\xff\xff", "null before"),
            (9, b"\2\0\0\1\0\0\0", "null before"),
            (12, b"\2" + bytes(16) + b"\2\xff\0\1\0\0", "no UTF-8"),
            (12, b"\2" + bytes(16) + b"\x09flights", "a field of 8 bytes"),
            (12, b"\x09" + bytes(80), "an array of 8 items"),
            (4, b"\0\0\0\0\2", "a bool is 0 or 1"),
        ],
    )
    def test_is_refused_if_a_value_is_wrong(self, version: int, body: bytes, why: str) -> None:
        with pytest.raises(InvalidRequestError, match=why):
            read(version, body)

    def test_with_too_many_topics_is_refused(self) -> None:
        count = ITEMS_MAX + 1
        body = count.to_bytes(4, "big") + bytes(2 * count)
        with pytest.raises(InvalidRequestError, match=f"{count} items"):
            read(8, body)
