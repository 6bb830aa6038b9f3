"""Clusters, brokers, topics and partitions, as in Confluent's v3."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from sparklog.admin import NewTopic
from sparklog.model import TopicDescription
from sparklog.rest.deps import (
    allowed,
    check_cluster,
    cluster_id_of,
    reader_of,
    service_of,
    token_of,
)
from sparklog.rest.errors import PARTITION_NOT_FOUND, ApiError
from sparklog.rest.links import Links, links_to, readable
from sparklog.rest.paging import PageAsked
from sparklog.rest.parameters import (
    PARTITION_END,
    ClusterId,
    IsolationLevel,
    PartitionNumber,
    TimestampAsOf,
    TopicName,
    VersionAsOf,
)
from sparklog.rest.payloads.bodies import body_docs, body_of
from sparklog.rest.routes.configs import NO_CONTENT, check_configs, check_once, value_of
from sparklog.rest.schemas import models3
from sparklog.rest.security import check, check_any
from sparklog.tokens import Scope

router = APIRouter(prefix="/v3", tags=["v3"])

BrokerId = Annotated[int, Path(description="The broker", ge=0, lt=PARTITION_END, examples=[0])]


# --- clusters ------------------------------------------------------------------------------------


@router.get("/clusters")
async def read_clusters(request: Request) -> models3.ClusterList:
    """The clusters: only this log dir."""
    token_of(request)
    service = service_of(request)
    cluster_id = await service.read_files(lambda: cluster_id_of(service))
    here = str(request.base_url).rstrip("/") + "/v3/clusters"
    return models3.ClusterList(
        metadata=models3.ListMetadata(self=here), data=[Links(request, cluster_id).cluster()]
    )


@router.get("/clusters/{cluster_id}")
async def read_cluster(request: Request, cluster_id: ClusterId) -> models3.ClusterData:
    """The cluster of this log dir."""
    token_of(request)
    return (await links_to(request, cluster_id)).cluster()


# --- brokers -------------------------------------------------------------------------------------


@router.get("/clusters/{cluster_id}/brokers")
async def read_cluster_brokers(request: Request, cluster_id: ClusterId) -> models3.BrokerList:
    """The brokers: only broker 0, the storage."""
    token_of(request)
    links = await links_to(request, cluster_id)
    return models3.BrokerList(metadata=links.list_at("/brokers"), data=[links.broker()])


@router.get("/clusters/{cluster_id}/brokers/{broker_id}")
async def read_cluster_broker(
    request: Request, cluster_id: ClusterId, broker_id: BrokerId
) -> models3.BrokerData:
    """Broker 0: the storage."""
    token_of(request)
    links = await links_to(request, cluster_id)
    if broker_id:
        raise ApiError(404, f"there is no broker {broker_id}: the storage is broker 0")
    return links.broker()


# --- topics --------------------------------------------------------------------------------------


@router.get("/clusters/{cluster_id}/topics")
async def read_cluster_topics(
    request: Request, cluster_id: ClusterId, page: PageAsked
) -> models3.TopicList:
    """The topics that the token may read."""
    token, service = token_of(request), service_of(request)
    links = await links_to(request, cluster_id)
    topics = await service.read_files(service.topics.topics)
    names = [name for name in topics if token.allows(Scope.READ, name)]
    names, following = page.of(names, str, str)
    data = [links.topic(topics[name]) for name in names]
    return models3.TopicList(metadata=links.list_at("/topics", following), data=data)


@router.post(
    "/clusters/{cluster_id}/topics",
    status_code=201,
    responses={200: {"model": models3.TopicData, "description": "With validate_only"}},
    openapi_extra=body_docs(
        models3.NewTopicIn,
        {
            "topic_name": "flights",
            "partitions_count": 4,
            "configs": [{"name": "retention.ms", "value": "-1"}],
        },
    ),
)
async def create_topic(
    request: Request, cluster_id: ClusterId, response: Response
) -> models3.TopicData:
    """Create a topic.

    The first topic creates the log dir. Its cluster id is unknown before: use `-` in the path.
    """
    token, service = token_of(request), service_of(request)
    check_any(token, Scope.ADMIN)
    wanted = await body_of(request, models3.NEW_TOPIC)
    check(token, Scope.ADMIN, wanted.topic_name)
    if cluster_id != "-":
        await check_cluster(service, cluster_id)
    check_once(one.name for one in wanted.configs)
    configs = {one.name: value_of(one) for one in wanted.configs}
    check_configs(configs)
    new = NewTopic(wanted.topic_name, wanted.partitions_count, configs)

    def create() -> tuple[TopicDescription, Links]:
        (topic,) = service.admin.create_topics([new], validate_only=wanted.validate_only)
        known_id = cluster_id if wanted.validate_only else cluster_id_of(service)
        return topic, Links(request, known_id)

    topic, links = await service.administer(token, create)
    if wanted.validate_only:
        response.status_code = 200
        return links.topic(topic)
    response.headers["Location"] = links.at(f"/topics/{topic.name}").self
    return links.topic(topic)


@router.get("/clusters/{cluster_id}/topics/{topic}")
async def read_cluster_topic(
    request: Request, cluster_id: ClusterId, topic: TopicName
) -> models3.TopicData:
    """A topic."""
    links, found = await readable(request, cluster_id, topic)
    return links.topic(found)


@router.patch(
    "/clusters/{cluster_id}/topics/{topic}",
    openapi_extra=body_docs(models3.PartitionsCountIn, {"partitions_count": 8}),
)
async def add_partitions(
    request: Request, cluster_id: ClusterId, topic: TopicName
) -> models3.TopicData:
    """Raise the number of a topic's partitions."""
    service = allowed(request, Scope.ADMIN, topic)
    links = await links_to(request, cluster_id)
    await service.check_topic(topic)
    wanted = await body_of(request, models3.PARTITIONS_COUNT)
    (grown,) = await service.administer(
        token_of(request),
        lambda: service.admin.create_partitions({topic: wanted.partitions_count}),
    )
    return links.topic(grown)


@router.delete(
    "/clusters/{cluster_id}/topics/{topic}", status_code=NO_CONTENT, response_class=Response
)
async def delete_topic(request: Request, cluster_id: ClusterId, topic: TopicName) -> None:
    """Delete a topic."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    await service.topic(topic)  # the error of AdminClient would name other topics
    await service.administer(token_of(request), lambda: service.admin.delete_topics([topic]))


# --- partitions ----------------------------------------------------------------------------------


@router.get("/clusters/{cluster_id}/topics/{topic}/partitions")
async def read_cluster_partitions(
    request: Request, cluster_id: ClusterId, topic: TopicName, page: PageAsked
) -> models3.PartitionList:
    """The partitions of a topic."""
    links, found = await readable(request, cluster_id, topic)
    numbers, following = page.of(range(found.num_partitions), int, int)
    data = [links.partition(topic, number) for number in numbers]
    metadata = links.list_at(f"/topics/{topic}/partitions", following)
    return models3.PartitionList(metadata=metadata, data=data)


@router.get("/clusters/{cluster_id}/topics/{topic}/partitions/{partition}")
async def read_cluster_partition(
    request: Request, cluster_id: ClusterId, topic: TopicName, partition: PartitionNumber
) -> models3.PartitionData:
    """One partition."""
    links, found = await readable(request, cluster_id, topic)
    if partition >= found.num_partitions:
        raise ApiError(PARTITION_NOT_FOUND, f"topic {topic!r} has no partition {partition}")
    return links.partition(topic, partition)


@router.get("/clusters/{cluster_id}/topics/{topic}/partitions/{partition}/offset")
async def read_cluster_offset(
    request: Request,
    cluster_id: ClusterId,
    topic: TopicName,
    partition: PartitionNumber,
    isolation_level: IsolationLevel = "read_uncommitted",
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
) -> models3.PartitionOffsetData:
    """The earliest and the latest offset of a partition: the latest is that of the next record."""
    allowed(request, Scope.READ, topic)
    del version_as_of, timestamp_as_of  # declared for OpenAPI; `reader_of` reads them
    links = await links_to(request, cluster_id)
    log = (await reader_of(request, topic)).partition(partition)
    path = f"/topics/{topic}/partitions/{partition}/offset"
    return models3.PartitionOffsetData(
        metadata=links.at(path),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=partition,
        earliest_offset=log.log_start_offset,
        latest_offset=log.end_offset(isolation_level),
    )
