"""The URLs of a cluster's resources in v3, and the JSON objects around them."""

from urllib.parse import quote

from fastapi import Request

from sparklog.config import ConfigEntry
from sparklog.log.names import INTERNAL_TOPICS
from sparklog.model import TopicDescription
from sparklog.rest.deps import allowed, check_cluster, service_of
from sparklog.rest.schemas import models3
from sparklog.tokens import Scope


def in_path(name: str) -> str:
    """Return a name as one segment of a path; groups and members may have any characters."""
    return quote(name, safe="")


class Links:
    """The URLs of one cluster's resources, and the JSON objects around them."""

    def __init__(self, request: Request, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self._base = str(request.base_url).rstrip("/") + f"/v3/clusters/{cluster_id}"
        self._crn = f"crn:///kafka={cluster_id}"

    def to(self, path: str) -> models3.Related:
        """Return the URL of a related resource; `path` is relative to the cluster."""
        return models3.Related(related=f"{self._base}{path}")

    def at(self, path: str, name: str = "") -> models3.ResourceMetadata:
        """Return the URL and the name of a resource."""
        return models3.ResourceMetadata(self=f"{self._base}{path}", resource_name=self._crn + name)

    def list_at(self, path: str, following: str | None = None) -> models3.ListMetadata:
        """Return the URLs of a list and of its next page."""
        return models3.ListMetadata(self=f"{self._base}{path}", next=following)

    def cluster(self) -> models3.ClusterData:
        """Return the cluster."""
        return models3.ClusterData(
            metadata=self.at(""),
            cluster_id=self.cluster_id,
            brokers=self.to("/brokers"),
            topics=self.to("/topics"),
        )

    def broker(self) -> models3.BrokerData:
        """Return broker 0, the storage."""
        return models3.BrokerData(
            metadata=self.at("/brokers/0", "/broker=0"), cluster_id=self.cluster_id
        )

    def topic(self, topic: TopicDescription) -> models3.TopicData:
        """Return a topic."""
        path = f"/topics/{topic.name}"
        return models3.TopicData(
            metadata=self.at(path, f"/topic={topic.name}"),
            cluster_id=self.cluster_id,
            topic_name=topic.name,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions_count=topic.num_partitions,
            partitions=self.to(f"{path}/partitions"),
            configs=self.to(f"{path}/configs"),
        )

    def config(self, topic: str, entry: ConfigEntry) -> models3.ConfigData:
        """Return a config of a topic."""
        source = str(entry.source)
        return models3.ConfigData(
            metadata=self.at(
                f"/topics/{topic}/configs/{entry.name}", f"/topic={topic}/config={entry.name}"
            ),
            cluster_id=self.cluster_id,
            topic_name=topic,
            name=entry.name,
            value=entry.value,
            is_default=entry.is_default,
            source=source,
            synonyms=[models3.ConfigSynonym(name=entry.name, value=entry.value, source=source)],
        )

    def partition(self, topic: str, partition: int) -> models3.PartitionData:
        """Return a partition of a topic."""
        return models3.PartitionData(
            metadata=self.at(
                f"/topics/{topic}/partitions/{partition}", f"/topic={topic}/partition={partition}"
            ),
            cluster_id=self.cluster_id,
            topic_name=topic,
            partition_id=partition,
        )


async def links_to(request: Request, cluster_id: str) -> Links:
    """Return the links of the log dir's cluster. Raises ApiError (404) for another one."""
    await check_cluster(service_of(request), cluster_id)
    return Links(request, cluster_id)


async def readable(request: Request, cluster_id: str, topic: str) -> tuple[Links, TopicDescription]:
    """Return the links and a topic, if the client may read it. Raises ApiError (401, 403, 404)."""
    service = allowed(request, Scope.READ, topic)
    links = await links_to(request, cluster_id)
    return links, await service.topic(topic)
