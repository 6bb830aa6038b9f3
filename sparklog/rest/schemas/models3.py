"""Bodies of the v3 paths, of requests and answers. Field names are Confluent's (docs/rest.md)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool, TypeAdapter

from sparklog.rest.parameters import TOPIC_PATTERN
from sparklog.rest.payloads.bodies import NUMBER
from sparklog.rest.schemas.models import In

PARTITIONS_MAX = 10_000
"""The most partitions of a topic created over REST: each partition makes all requests slower."""


class ConfigIn(In):
    """A topic config, with Kafka's name."""

    name: Annotated[str, Field(max_length=249)]
    value: Annotated[str, Field(max_length=4096)] | None = None


class NewTopicIn(In):
    """A topic to create. The storage replicates: the fields on replication are ignored."""

    topic_name: Annotated[str, Field(pattern=TOPIC_PATTERN)]
    partitions_count: Annotated[int, Field(ge=1, le=PARTITIONS_MAX), NUMBER] = 1
    replication_factor: Annotated[int, Field(ge=-1, lt=2**15), NUMBER] | None = None
    replicas_assignments: Annotated[list[Any], Field(max_length=PARTITIONS_MAX)] | None = None
    configs: Annotated[list[ConfigIn], Field(max_length=100)] = Field(default_factory=list)
    validate_only: StrictBool = False


class PartitionsCountIn(In):
    """The number of partitions that a topic is to have."""

    partitions_count: Annotated[int, Field(ge=1, le=PARTITIONS_MAX), NUMBER]


class ConfigValueIn(In):
    """A config's new value."""

    value: Annotated[str, Field(max_length=4096)]


class ConfigChange(ConfigIn):
    """One change of a config."""

    operation: Literal["SET", "DELETE"] = "SET"


class ConfigChangesIn(In):
    """Changes of configs: all happen, or none."""

    data: Annotated[list[ConfigChange], Field(min_length=1, max_length=100)]
    validate_only: StrictBool = False


class ResourceMetadata(BaseModel):
    """The URL of a resource."""

    self: str
    resource_name: str | None = None


class ResourceData(BaseModel):
    """The fields of every resource: its kind, its URL, and the cluster id of the log dir."""

    kind: str
    metadata: ResourceMetadata
    cluster_id: str


class ListMetadata(BaseModel):
    """The URL of a list, and of its next page; `next` is null on the last page."""

    self: str
    next: str | None = None


class Related(BaseModel):
    """The URL of a related resource."""

    related: str


class ClusterData(ResourceData):
    """A log dir."""

    kind: str = "KafkaCluster"
    controller: Related | None = None
    brokers: Related
    topics: Related


class ClusterList(BaseModel):
    """The clusters: only this log dir."""

    kind: str = "KafkaClusterList"
    metadata: ListMetadata
    data: list[ClusterData]


class BrokerData(ResourceData):
    """Broker 0: the storage, which has no host and port."""

    kind: str = "KafkaBroker"
    broker_id: int = 0
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    configs: Related | None = None
    partition_replicas: Related | None = None


class BrokerList(BaseModel):
    """The brokers: only broker 0, the storage."""

    kind: str = "KafkaBrokerList"
    metadata: ListMetadata
    data: list[BrokerData]


class TopicData(ResourceData):
    """A topic."""

    kind: str = "KafkaTopic"
    topic_name: str
    is_internal: bool = False
    replication_factor: int = 1
    partitions_count: int
    partitions: Related
    configs: Related


class TopicList(BaseModel):
    """The topics."""

    kind: str = "KafkaTopicList"
    metadata: ListMetadata
    data: list[TopicData]


class ConfigSynonym(BaseModel):
    """One source of a config's value."""

    name: str
    value: str
    source: str


class ConfigData(ResourceData):
    """A config of a topic."""

    kind: str = "KafkaTopicConfig"
    topic_name: str
    name: str
    value: str
    is_default: bool
    is_read_only: bool = False
    is_sensitive: bool = False
    source: str
    synonyms: list[ConfigSynonym]


class ConfigList(BaseModel):
    """The configs of a topic."""

    kind: str = "KafkaTopicConfigList"
    metadata: ListMetadata
    data: list[ConfigData]


class PartitionData(ResourceData):
    """A partition."""

    kind: str = "KafkaPartition"
    topic_name: str
    partition_id: int
    leader: Related | None = None
    replicas: Related | None = None


class PartitionList(BaseModel):
    """The partitions of a topic."""

    kind: str = "KafkaPartitionList"
    metadata: ListMetadata
    data: list[PartitionData]


class PartitionOffsetData(ResourceData):
    """The beginning and the end of a partition's log, in v3."""

    kind: str = "KafkaPartitionOffset"
    topic_name: str
    partition_id: int
    earliest_offset: int
    latest_offset: int


class Field3(BaseModel):
    """Type and size of a key or value."""

    type: str
    size: int


class Report(BaseModel):
    """The delivery report of one record; that of an error has only `error_code` and `message`."""

    error_code: int
    message: str | None = None
    cluster_id: str | None = None
    topic_name: str | None = None
    partition_id: int | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: Field3 | None = None
    value: Field3 | None = None


class BatchSuccess(BaseModel):
    """The delivery report of one record of a batch."""

    id: str
    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str | None
    """None in the answer to a retry if the service gave the record its time, and beyond the year
    9999."""
    key: Field3 | None = None
    value: Field3 | None = None


class BatchFailure(BaseModel):
    """The error of one record of a batch."""

    id: str
    error_code: int
    message: str


class BatchReport(BaseModel):
    """The delivery reports of a batch: each has the id of its record."""

    successes: list[BatchSuccess]
    failures: list[BatchFailure]


NEW_TOPIC: TypeAdapter[NewTopicIn] = TypeAdapter(NewTopicIn)
PARTITIONS_COUNT: TypeAdapter[PartitionsCountIn] = TypeAdapter(PartitionsCountIn)
CONFIG_VALUE: TypeAdapter[ConfigValueIn] = TypeAdapter(ConfigValueIn)
CONFIG_CHANGES: TypeAdapter[ConfigChangesIn] = TypeAdapter(ConfigChangesIn)
