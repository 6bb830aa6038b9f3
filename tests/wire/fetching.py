"""A small language for Fetch: a request of any version, and the records of its answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.static.primitive import i32Timedelta

from sparklog.model import TopicDescription
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.versions import APIS, ApiKey
from tests.naive.decode import read_log
from tests.wire.gateways import Client
from tests.wire.requests import body, part

MANY = 2**31 - 1
VERSIONS = range(APIS[ApiKey.FETCH].min_version, APIS[ApiKey.FETCH].max_version + 1)
NEWEST = VERSIONS[-1]


@dataclass(frozen=True)
class Part:
    """One partition of a request."""

    partition: int = 0
    offset: int = 0
    max_bytes: int = MANY
    epoch: int = -1
    fetched_epoch: int = -1


def fetch_request(
    version: int,
    topic: TopicDescription | str | UUID,
    *parts: Part,
    wait_ms: int = 0,
    committed: bool = False,
    **fields: Any,
) -> Any:
    """A request for partitions of one topic."""
    if isinstance(topic, TopicDescription):
        topic = uuid_of(topic.topic_id) if version >= 13 else topic.name
    partitions = tuple(
        part(
            ApiKey.FETCH,
            version,
            "FetchPartition",
            partition=one.partition,
            fetch_offset=one.offset,
            partition_max_bytes=one.max_bytes,
            current_leader_epoch=one.epoch,
            last_fetched_epoch=one.fetched_epoch,
        )
        for one in parts
    )
    named = {"topic_id": topic, "topic": topic, "partitions": partitions}
    told = {
        "max_wait": i32Timedelta.parse(timedelta(milliseconds=wait_ms)),
        "min_bytes": 1,
        "isolation_level": int(committed),
        "topics": (part(ApiKey.FETCH, version, "FetchTopic", **named),) if parts else (),
        "forgotten_topics_data": (),
    }
    return body(ApiKey.FETCH, version, **{**told, **fields})


def fetched(
    client: Client, topic: TopicDescription | str | UUID, *parts: Part, **options: Any
) -> list[Any]:
    """The answers for the partitions."""
    version = options.pop("version", NEWEST)
    answer = client.ask(fetch_request(version, topic, *(parts or (Part(),)), **options))
    return partitions_of(answer)


def partitions_of(answer: Any) -> list[Any]:
    return [one for topic in answer.responses for one in topic.partitions]


def errors(partitions: Sequence[Any]) -> list[int]:
    return [int(one.error_code) for one in partitions]


def values(partition: Any) -> list[str]:
    """The values of the records of one partition's answer."""
    return [(one.value or b"").decode() for one in read_log(bytes(partition.records or b""))]


def offsets(partition: Any) -> list[int]:
    return [one.offset for one in read_log(bytes(partition.records or b""))]
