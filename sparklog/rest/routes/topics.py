"""Topics as in Confluent's v2."""

from fastapi import APIRouter, Request

from sparklog.config import TopicConfig
from sparklog.rest.deps import allowed, service_of, token_of
from sparklog.rest.errors import PARTITION_NOT_FOUND, ApiError
from sparklog.rest.parameters import PartitionNumber, TopicName
from sparklog.rest.schemas import models
from sparklog.tokens import Scope

router = APIRouter(tags=["topics"])


@router.get("/topics")
async def read_topics(request: Request) -> list[str]:
    """The names of the topics that the token may read."""
    token, service = token_of(request), service_of(request)
    topics = await service.read_files(service.topics.topics)
    return [name for name in topics if token.allows(Scope.READ, name)]


@router.get("/topics/{topic}")
async def read_topic(request: Request, topic: TopicName) -> models.TopicOut:
    """A topic, its configs and partitions."""
    service = allowed(request, Scope.READ, topic)
    found = await service.topic(topic)
    return models.TopicOut(
        name=topic,
        configs={one.name: one.value for one in TopicConfig.parse(found.configs).describe()},
        partitions=[models.PartitionOut(partition=n) for n in range(found.num_partitions)],
    )


@router.get("/topics/{topic}/partitions")
async def read_partitions(request: Request, topic: TopicName) -> list[models.PartitionOut]:
    """The partitions of a topic."""
    return (await read_topic(request, topic)).partitions


@router.get("/topics/{topic}/partitions/{partition}")
async def read_partition(
    request: Request, topic: TopicName, partition: PartitionNumber
) -> models.PartitionOut:
    """One partition."""
    partitions = await read_partitions(request, topic)
    if partition >= len(partitions):
        raise ApiError(PARTITION_NOT_FOUND, f"topic {topic!r} has no partition {partition}")
    return partitions[partition]


@router.get("/brokers")
async def read_brokers(request: Request) -> models.Brokers:
    """The brokers: only broker 0, the storage."""
    token_of(request)
    return models.Brokers()
