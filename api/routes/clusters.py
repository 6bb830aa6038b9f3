"""Clusters, topics, partitions and configs as Confluent's v3 tells and changes them."""

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response

from api import models
from api.bodies import body_docs, body_of
from api.deps import PartitionNumber, TopicName, allowed, service_of, token_of
from api.errors import BAD_REQUEST, PARTITION_NOT_FOUND, ApiError
from api.routes.records import check_cluster, cluster_id_of
from api.security import Scope, check
from api.service import Service
from sparklog.admin import AlterConfigOp, NewTopic, OpType
from sparklog.config import ConfigEntry, TopicConfig
from sparklog.model import TopicDescription
from sparklog.produce.partitioner import DEFAULT, ROUND_ROBIN, UNIFORM_STICKY

router = APIRouter(prefix="/v3", tags=["v3"])

ClusterId = Annotated[str, Path(description="meta.properties' cluster.id", max_length=100)]
ConfigName = Annotated[
    str, Path(description="A topic config", max_length=249, examples=["retention.ms"])
]
NO_CONTENT: Final = 204
_PARTITIONER: Final = "sparklog.partitioner"
_PARTITIONERS: Final = (DEFAULT, ROUND_ROBIN, UNIFORM_STICKY)


class Links:
    """The addresses of a cluster's resources, and the envelopes around them."""

    def __init__(self, request: Request, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self._base = str(request.base_url).rstrip("/") + f"/v3/clusters/{cluster_id}"
        self._crn = f"crn:///kafka={cluster_id}"

    def to(self, path: str) -> models.Related:
        """A link below the cluster."""
        return models.Related(related=f"{self._base}{path}")

    def at(self, path: str, name: str = "") -> models.ResourceMetadata:
        """Where a resource is, and its name."""
        return models.ResourceMetadata(self=f"{self._base}{path}", resource_name=self._crn + name)

    def list_at(self, path: str) -> models.ListMetadata:
        """Where a list is."""
        return models.ListMetadata(self=f"{self._base}{path}")

    def cluster(self) -> models.ClusterData:
        """The cluster."""
        return models.ClusterData(
            metadata=self.at(""),
            cluster_id=self.cluster_id,
            brokers=self.to("/brokers"),
            topics=self.to("/topics"),
        )

    def topic(self, topic: TopicDescription) -> models.TopicData:
        """A topic."""
        path = f"/topics/{topic.name}"
        return models.TopicData(
            metadata=self.at(path, f"/topic={topic.name}"),
            cluster_id=self.cluster_id,
            topic_name=topic.name,
            partitions_count=topic.num_partitions,
            partitions=self.to(f"{path}/partitions"),
            configs=self.to(f"{path}/configs"),
        )

    def config(self, topic: str, entry: ConfigEntry) -> models.ConfigData:
        """A config."""
        source = str(entry.source)
        return models.ConfigData(
            metadata=self.at(
                f"/topics/{topic}/configs/{entry.name}", f"/topic={topic}/config={entry.name}"
            ),
            cluster_id=self.cluster_id,
            topic_name=topic,
            name=entry.name,
            value=entry.value,
            is_default=entry.is_default,
            source=source,
            synonyms=[models.ConfigSynonym(name=entry.name, value=entry.value, source=source)],
        )

    def partition(self, topic: str, partition: int) -> models.PartitionData:
        """A partition."""
        return models.PartitionData(
            metadata=self.at(
                f"/topics/{topic}/partitions/{partition}", f"/topic={topic}/partition={partition}"
            ),
            cluster_id=self.cluster_id,
            topic_name=topic,
            partition_id=partition,
        )


async def _links(request: Request, cluster_id: str) -> Links:
    await check_cluster(service_of(request), cluster_id)
    return Links(request, cluster_id)


async def _described(service: Service, topic: str) -> TopicDescription:
    return await service.lookup(lambda: service.topics.topic(topic))


# --- clusters ------------------------------------------------------------------------------------


@router.get("/clusters")
async def read_clusters(request: Request) -> models.ClusterList:
    """The clusters: this log dir."""
    token_of(request)
    service = service_of(request)
    cluster_id = await service.lookup(lambda: cluster_id_of(service))
    here = str(request.base_url).rstrip("/") + "/v3/clusters"
    return models.ClusterList(
        metadata=models.ListMetadata(self=here), data=[Links(request, cluster_id).cluster()]
    )


@router.get("/clusters/{cluster_id}")
async def read_cluster(request: Request, cluster_id: ClusterId) -> models.ClusterData:
    """The cluster of this log dir."""
    token_of(request)
    return (await _links(request, cluster_id)).cluster()


# --- topics --------------------------------------------------------------------------------------


@router.get("/clusters/{cluster_id}/topics")
async def read_cluster_topics(request: Request, cluster_id: ClusterId) -> models.TopicList:
    """The topics that the token may read."""
    token, service = token_of(request), service_of(request)
    links = await _links(request, cluster_id)
    topics = await service.lookup(service.topics.topics)
    data = [links.topic(one) for name, one in topics.items() if token.allows(Scope.READ, name)]
    return models.TopicList(metadata=links.list_at("/topics"), data=data)


@router.post(
    "/clusters/{cluster_id}/topics",
    status_code=201,
    openapi_extra=body_docs(
        models.NewTopicIn,
        {
            "topic_name": "flights",
            "partitions_count": 4,
            "configs": [{"name": "retention.ms", "value": "-1"}],
        },
    ),
)
async def create_topic(
    request: Request, cluster_id: ClusterId, response: Response
) -> models.TopicData:
    """Create a topic. The first one makes the log dir, whose id is not known before: give `-`."""
    token, service = token_of(request), service_of(request)
    wanted = await body_of(request, models.NEW_TOPIC)
    check(token, Scope.ADMIN, wanted.topic_name)
    if cluster_id != "-":
        await check_cluster(service, cluster_id)
    configs = {one.name: one.value for one in wanted.configs if one.value is not None}
    _check_configs(configs)
    new = NewTopic(wanted.topic_name, wanted.partitions_count, configs)
    (topic,) = await service.administer(
        lambda: service.admin.create_topics([new], validate_only=wanted.validate_only)
    )
    if wanted.validate_only:
        response.status_code = 200
        return Links(request, cluster_id).topic(topic)
    links = Links(request, await service.lookup(lambda: cluster_id_of(service)))
    response.headers["Location"] = links.at(f"/topics/{topic.name}").self
    return links.topic(topic)


@router.get("/clusters/{cluster_id}/topics/{topic}")
async def read_cluster_topic(
    request: Request, cluster_id: ClusterId, topic: TopicName
) -> models.TopicData:
    """A topic."""
    service = allowed(request, Scope.READ, topic)
    return (await _links(request, cluster_id)).topic(await _described(service, topic))


@router.patch(
    "/clusters/{cluster_id}/topics/{topic}",
    openapi_extra=body_docs(models.PartitionsCountIn, {"partitions_count": 8}),
)
async def add_partitions(
    request: Request, cluster_id: ClusterId, topic: TopicName
) -> models.TopicData:
    """Grow a topic to a number of partitions."""
    service = allowed(request, Scope.ADMIN, topic)
    links = await _links(request, cluster_id)
    wanted = await body_of(request, models.PARTITIONS_COUNT)
    (grown,) = await service.administer(
        lambda: service.admin.create_partitions({topic: wanted.partitions_count})
    )
    return links.topic(grown)


@router.delete(
    "/clusters/{cluster_id}/topics/{topic}", status_code=NO_CONTENT, response_class=Response
)
async def delete_topic(request: Request, cluster_id: ClusterId, topic: TopicName) -> None:
    """Delete a topic."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    await _described(service, topic)  # names of others are not told
    await service.administer(lambda: service.admin.delete_topics([topic]))


# --- configs -------------------------------------------------------------------------------------


@router.get("/clusters/{cluster_id}/topics/{topic}/configs")
async def read_configs(
    request: Request, cluster_id: ClusterId, topic: TopicName
) -> models.ConfigList:
    """Every config of a topic, defaults included."""
    service = allowed(request, Scope.READ, topic)
    links = await _links(request, cluster_id)
    found = await _described(service, topic)
    data = [links.config(topic, one) for one in TopicConfig.parse(found.configs).describe()]
    return models.ConfigList(metadata=links.list_at(f"/topics/{topic}/configs"), data=data)


@router.get("/clusters/{cluster_id}/topics/{topic}/configs/{name}")
async def read_config(
    request: Request, cluster_id: ClusterId, topic: TopicName, name: ConfigName
) -> models.ConfigData:
    """One config of a topic."""
    configs = await read_configs(request, cluster_id, topic)
    for one in configs.data:
        if one.name == name:
            return one
    raise ApiError(404, f"{name!r} is not a topic config")


@router.put(
    "/clusters/{cluster_id}/topics/{topic}/configs/{name}",
    status_code=NO_CONTENT,
    response_class=Response,
    openapi_extra=body_docs(models.ConfigValueIn, {"value": "86400000"}),
)
async def set_config(
    request: Request, cluster_id: ClusterId, topic: TopicName, name: ConfigName
) -> None:
    """Set a config."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    wanted = await body_of(request, models.CONFIG_VALUE)
    await _alter(service, topic, [AlterConfigOp(name, wanted.value)])


@router.delete(
    "/clusters/{cluster_id}/topics/{topic}/configs/{name}",
    status_code=NO_CONTENT,
    response_class=Response,
)
async def reset_config(
    request: Request, cluster_id: ClusterId, topic: TopicName, name: ConfigName
) -> None:
    """Reset a config to its default."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    await _alter(service, topic, [AlterConfigOp(name, op=OpType.DELETE)])


@router.post(
    "/clusters/{cluster_id}/topics/{topic}/configs:alter",
    status_code=NO_CONTENT,
    response_class=Response,
    openapi_extra=body_docs(
        models.ConfigChangesIn, {"data": [{"name": "retention.ms", "operation": "DELETE"}]}
    ),
)
async def alter_configs(request: Request, cluster_id: ClusterId, topic: TopicName) -> None:
    """Change several configs, all or none."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    wanted = await body_of(request, models.CONFIG_CHANGES)
    ops = [AlterConfigOp(one.name, one.value or "", OpType(one.operation)) for one in wanted.data]
    if wanted.validate_only:
        found = await _described(service, topic)
        changed = {op.name: str(op.value) for op in ops if op.op is OpType.SET}
        _check_configs(changed)
        TopicConfig.parse({**found.configs, **changed})
        return
    await _alter(service, topic, ops)


async def _alter(service: Service, topic: str, ops: list[AlterConfigOp]) -> None:
    _check_configs({op.name: str(op.value) for op in ops if op.op is OpType.SET})
    await service.administer(lambda: service.admin.incremental_alter_configs({topic: ops}))


def _check_configs(configs: Mapping[str, str]) -> None:
    """Refuse to name code: whoever may configure topics may not thereby run what is installed."""
    if configs.get(_PARTITIONER, DEFAULT) not in _PARTITIONERS:
        raise ApiError(BAD_REQUEST, f"{_PARTITIONER} over REST is {', '.join(_PARTITIONERS)}")


# --- partitions ----------------------------------------------------------------------------------


@router.get("/clusters/{cluster_id}/topics/{topic}/partitions")
async def read_cluster_partitions(
    request: Request, cluster_id: ClusterId, topic: TopicName
) -> models.PartitionList:
    """The partitions of a topic."""
    service = allowed(request, Scope.READ, topic)
    links = await _links(request, cluster_id)
    found = await _described(service, topic)
    data = [links.partition(topic, number) for number in range(found.num_partitions)]
    return models.PartitionList(metadata=links.list_at(f"/topics/{topic}/partitions"), data=data)


@router.get("/clusters/{cluster_id}/topics/{topic}/partitions/{partition}")
async def read_cluster_partition(
    request: Request, cluster_id: ClusterId, topic: TopicName, partition: PartitionNumber
) -> models.PartitionData:
    """One partition."""
    partitions = (await read_cluster_partitions(request, cluster_id, topic)).data
    if partition >= len(partitions):
        raise ApiError(PARTITION_NOT_FOUND, f"topic {topic!r} has no partition {partition}")
    return partitions[partition]


@router.get("/clusters/{cluster_id}/topics/{topic}/partitions/{partition}/offset")
async def read_cluster_offset(
    request: Request, cluster_id: ClusterId, topic: TopicName, partition: PartitionNumber
) -> models.PartitionOffsetData:
    """Where the log of a partition begins and ends."""
    service = allowed(request, Scope.READ, topic)
    links = await _links(request, cluster_id)
    reader = await service.reader(topic)
    path = f"/topics/{topic}/partitions/{partition}/offset"
    return models.PartitionOffsetData(
        metadata=links.at(path),
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=partition,
        earliest_offset=reader.log_start_offset(partition),
        latest_offset=reader.log_end_offset(partition),
    )
