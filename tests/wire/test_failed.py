"""A storage that fails: each API answers in each version, with a code after which clients ask."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from threading import current_thread
from types import NoneType, UnionType
from typing import Any, Final, cast, get_args, get_origin
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from sparklog.coordinator.messages import unsigned_varint
from sparklog.errors import StorageError
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.metadata.follow import FollowedLog
from sparklog.service.logs import Seldom
from sparklog.wire.configs import TOPIC
from sparklog.wire.handlers.admin.cluster import METADATA_TOPIC
from sparklog.wire.handlers.call import LONG_BYTES
from sparklog.wire.handlers.failed import _SHAPES, Shape, code_of
from sparklog.wire.protocol.versions import ApiKey
from tests.failing import failing
from tests.wire.gateways import Client, RunningGateway, frame_of, gateway
from tests.wire.requests import body, part, versions
from tests.wire.test_metadata import metadata_request

GONE: Final = StorageError("the disk is gone")
VALUES: Final = {
    "string": METADATA_TOPIC,
    "bytes": b"x",
    "bool": False,
    "uuid": UUID(int=1),
    "timedelta_i32": timedelta(seconds=30),
    "timedelta_i64": timedelta(seconds=30),
    "int8": TOPIC,
}
"""Values of fields by their type; all others are 0."""
READS_NOTHING: Final = (ApiKey.LIST_CONFIG_RESOURCES, 0)


def example(schema: Any, **given: Any) -> Any:
    """A request with an item in each of its arrays; null only for structs."""
    return schema(**{one.name: given.get(one.name, _value(one)) for one in fields(schema)})


def _value(field: Any) -> Any:
    kind = field.type
    if is_nullable := get_origin(kind) is UnionType:
        [kind] = [one for one in get_args(kind) if one is not NoneType]
    is_array = get_origin(kind) is tuple
    inner = get_args(kind)[0] if is_array else kind
    if not is_dataclass(inner):
        found = VALUES.get(field.metadata["kafka_type"], 0)
        return (found,) if is_array else found
    return (example(inner),) if is_array else None if is_nullable else example(inner)


def codes_of(answer: Any) -> Iterator[ErrorCode]:
    """All error codes in an answer."""
    for one in fields(answer):
        value = getattr(answer, one.name)
        if isinstance(value, ErrorCode):
            yield value
        for inner in value if isinstance(value, tuple) else ():
            yield from codes_of(inner)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose disk is gone."""
    with gateway(tmp_path_factory.mktemp("log")) as found, pytest.MonkeyPatch.context() as patched:
        patched.setattr(FollowedLog, "_follow", failing(StorageError, "the disk is gone"))
        patched.setattr(FollowedTopics, "image_at_hand", lambda *_, **__: None)
        yield found


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, one) for key in _SHAPES for one in versions(key) if (key, one) != READS_NOTHING],
)
def test_each_part_of_an_answer_has_the_code(client: Client, key: ApiKey, version: int) -> None:
    asked = example(load_request_schema(key, version), transactional_id=None, require_stable=True)
    if key in (ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT):
        asked = example(load_request_schema(key, version))
    found = client.ask(asked)
    codes = [*codes_of(found)]
    if getattr(found, "error_code", None) == ErrorCode.none:  # the whole answer's, not a part's
        codes.remove(ErrorCode.none)
    assert {*codes} == {ErrorCode(code_of(key, GONE))}


@pytest.mark.parametrize("version", [10, 13])
def test_an_answer_repeats_ids_and_has_an_empty_name_for_each(client: Client, version: int) -> None:
    """As MetadataRequest.getErrorResponse: before version 12 a name in an answer is never null."""
    one = part(ApiKey.METADATA, version, "MetadataRequestTopic", name=None, topic_id=UUID(int=1))
    topics = (one, replace(one, name=METADATA_TOPIC))
    found = client.ask(example(load_request_schema(ApiKey.METADATA, version), topics=topics)).topics
    assert [one.name for one in found] == ["", METADATA_TOPIC]
    assert [one.topic_id for one in found] == [UUID(int=1)] * 2


ALL_TOPICS = [
    body(ApiKey.METADATA, 0, topics=()),
    body(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=(), response_partition_limit=1, cursor=None),
    body(ApiKey.ELECT_LEADERS, 0, topic_partitions=None),
]


@pytest.mark.parametrize("asked", ALL_TOPICS)
def test_none_is_for_all_topics(client: Client, asked: Any) -> None:
    """An answer without topics would say that there are none."""
    client.send(asked)
    assert client.receive_frame() == b""


def test_nor_is_one_that_is_long(client: Client) -> None:
    """A long request is answered beside the event loop: there, too, the error ends it."""
    unknown_tag = b"\x01\x64" + unsigned_varint(LONG_BYTES) + bytes(LONG_BYTES)
    client.send_frame(frame_of(metadata_request(12, None))[:-1] + unknown_tag)
    assert client.receive_frame() == b""


def test_a_long_answer_holds_nobody_up_and_has_no_messages(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a request of 2 MB must not have an answer of gigabytes."""
    key, threads = ApiKey.DESCRIBE_CONFIGS, list[str]()
    shape = _SHAPES[key]

    def noted(*args: Any) -> Any:
        threads.append(current_thread().name)
        return shape(*args)

    monkeypatch.setitem(cast("dict[ApiKey, Shape]", _SHAPES), key, noted)
    named = example(load_request_schema(key, 4)).resources[0]
    many = (named,) * LONG_BYTES
    found = client.ask(example(load_request_schema(key, 4), resources=many)).results
    assert {one.error_code for one in found} == {ErrorCode.kafka_storage_error}
    assert {one.error_message for one in found} == {None}
    assert [one.rpartition("_")[0] for one in threads] == ["answer"]


def test_the_log_says_why(
    running: RunningGateway,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = running.server.gateway
    monkeypatch.setattr(found, "seldom", Seldom(found.clock))  # the other tests have had lines
    for _ in range(2):
        client.ask(example(load_request_schema(ApiKey.OFFSET_COMMIT, 9)))
    assert caplog.text.count("OFFSET_COMMIT failed: the disk is gone") == 1
