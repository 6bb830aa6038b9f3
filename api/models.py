"""Bodies in and out, by role. Field names are Confluent's; see docs/rest.md."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from sparklog.model import NO_TIMESTAMP

PARTITIONS_MAX = 10_000
"""Of a topic over REST: what a request may make every later one pay for has a limit."""

Int32 = Annotated[int, Field(ge=0, lt=2**31)]
Int64 = Annotated[int, Field(ge=0, lt=2**63)]


class In(BaseModel):
    """A body that came in; it refuses what it does not know, so nothing misspelt is ignored."""

    model_config = ConfigDict(extra="forbid")


class ErrorBody(BaseModel):
    """Every error."""

    error_code: int = Field(examples=[40401])
    message: str = Field(examples=["unknown topic 'flihgts'"])


# --- offsets -------------------------------------------------------------------------------------


class PartitionOffsets(BaseModel):
    """Where the log of a partition begins and ends."""

    beginning_offset: int
    end_offset: int


class FoundOffset(BaseModel):
    """ListOffsets' answer: the record found, -1 and -1 for none."""

    partition: int
    offset: int
    timestamp: int = NO_TIMESTAMP


class FileRange(BaseModel):
    """A file, relative to the log dir."""

    path: str
    bytes: int


class IndexEntry(BaseModel):
    """The entry of the offset index that led to the batch, as it stands in the file."""

    path: str
    offset: int
    position: int


class OffsetPlace(BaseModel):
    """Where an offset lies: segment, file, index entry, batch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    segment_base_offset: int
    segment_next_offset: int
    file_base_offset: int
    sealed: bool
    log: FileRange
    index_entry: IndexEntry | None
    position: int
    batch_bytes: int
    batch_base_offset: int
    batch_last_offset: int


class Lookup(In):
    """One question: where an offset lies, or which record is the first from a time on."""

    partition: Int32
    offset: Int64 | None = None
    timestamp: Annotated[int, Field(ge=-3, lt=2**63)] | str | None = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> "Lookup":
        if (self.offset is None) == (self.timestamp is None):
            raise ValueError("a lookup has either offset or timestamp")
        return self


class LookupsIn(In):
    """Many questions about one topic."""

    lookups: Annotated[list[Lookup], Field(min_length=1, max_length=10_000)]


class LookupAnswer(BaseModel):
    """One answer, in the order of the questions."""

    partition: int
    offset: int | None = None
    timestamp: int | None = None
    place: OffsetPlace | None = None
    error_code: int | None = None
    message: str | None = None


class LookupsOut(BaseModel):
    """The answers."""

    lookups: list[LookupAnswer]


# --- topics, v2 ----------------------------------------------------------------------------------


class Replica(BaseModel):
    """There are no brokers: one replica, on broker 0, which is the storage."""

    broker: int = 0
    leader: bool = True
    in_sync: bool = True


class PartitionOut(BaseModel):
    """A partition."""

    partition: int
    leader: int = 0
    replicas: list[Replica] = Field(default_factory=lambda: [Replica()])


class TopicOut(BaseModel):
    """A topic; `configs` are those that are set or have a default."""

    name: str
    configs: dict[str, str]
    partitions: list[PartitionOut]


class Brokers(BaseModel):
    """The brokers: one, which is the storage."""

    brokers: list[int] = [0]


# --- records -------------------------------------------------------------------------------------


class Header(BaseModel):
    """A header; its value is base64."""

    key: str
    value: str | None


class RecordOut(BaseModel):
    """A record; key and value are base64, or JSON where that was asked for."""

    topic: str
    key: Any
    value: Any
    partition: int
    offset: int
    timestamp: int
    headers: list[Header] | None = None


class ProducedOffset(BaseModel):
    """What one record got."""

    partition: int
    offset: int
    error_code: int | None = None
    error: str | None = None


class Produced(BaseModel):
    """What the records of a request got, in their order."""

    offsets: list[ProducedOffset]
    key_schema_id: int | None = None
    value_schema_id: int | None = None


# --- v3 ------------------------------------------------------------------------------------------


class ConfigIn(In):
    """A topic config, as Kafka names it."""

    name: Annotated[str, Field(max_length=249)]
    value: Annotated[str, Field(max_length=4096)] | None = None


class NewTopicIn(In):
    """A topic to create. Replication is the storage's: its fields are accepted and mean nothing."""

    topic_name: Annotated[str, Field(pattern="^[a-zA-Z0-9._-]{1,249}$")]
    partitions_count: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)] = 1
    replication_factor: Annotated[int, Field(ge=-1, lt=2**15)] | None = None
    replicas_assignments: list[Any] | None = None
    configs: Annotated[list[ConfigIn], Field(max_length=100)] = Field(default_factory=list)
    validate_only: bool = False


class PartitionsCountIn(In):
    """How many partitions a topic is to have."""

    partitions_count: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)]


class ConfigValueIn(In):
    """A config's new value."""

    value: Annotated[str, Field(max_length=4096)]


class ConfigChange(ConfigIn):
    """One change of several."""

    operation: Literal["SET", "DELETE"] = "SET"


class ConfigChangesIn(In):
    """Changes that happen together."""

    data: Annotated[list[ConfigChange], Field(min_length=1, max_length=100)]
    validate_only: bool = False


class ResourceMetadata(BaseModel):
    """Where a resource is."""

    self: str
    resource_name: str | None = None


class ListMetadata(BaseModel):
    """Where a list is; everything is on one page."""

    self: str
    next: str | None = None


class Related(BaseModel):
    """Where to go on."""

    related: str


class ClusterData(BaseModel):
    """A log dir."""

    kind: str = "KafkaCluster"
    metadata: ResourceMetadata
    cluster_id: str
    controller: Related | None = None
    brokers: Related
    topics: Related


class ClusterList(BaseModel):
    """The clusters: one."""

    kind: str = "KafkaClusterList"
    metadata: ListMetadata
    data: list[ClusterData]


class TopicData(BaseModel):
    """A topic."""

    kind: str = "KafkaTopic"
    metadata: ResourceMetadata
    cluster_id: str
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
    """Where a value comes from."""

    name: str
    value: str
    source: str


class ConfigData(BaseModel):
    """A config of a topic."""

    kind: str = "KafkaTopicConfig"
    metadata: ResourceMetadata
    cluster_id: str
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


class PartitionData(BaseModel):
    """A partition."""

    kind: str = "KafkaPartition"
    metadata: ResourceMetadata
    cluster_id: str
    topic_name: str
    partition_id: int
    leader: Related | None = None
    replicas: Related | None = None


class PartitionList(BaseModel):
    """The partitions of a topic."""

    kind: str = "KafkaPartitionList"
    metadata: ListMetadata
    data: list[PartitionData]


class PartitionOffsetData(BaseModel):
    """Where the log of a partition begins and ends, in v3."""

    kind: str = "KafkaPartitionOffset"
    metadata: ResourceMetadata
    cluster_id: str
    topic_name: str
    partition_id: int
    earliest_offset: int
    latest_offset: int


class Field3(BaseModel):
    """Type and size of a key or value."""

    type: str
    size: int


class Report(BaseModel):
    """What one record of a v3 produce got; an error has `error_code` and `message` only."""

    error_code: int
    message: str | None = None
    cluster_id: str | None = None
    topic_name: str | None = None
    partition_id: int | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: Field3 | None = None
    value: Field3 | None = None


LOOKUPS: TypeAdapter[LookupsIn] = TypeAdapter(LookupsIn)
NEW_TOPIC: TypeAdapter[NewTopicIn] = TypeAdapter(NewTopicIn)
PARTITIONS_COUNT: TypeAdapter[PartitionsCountIn] = TypeAdapter(PartitionsCountIn)
CONFIG_VALUE: TypeAdapter[ConfigValueIn] = TypeAdapter(ConfigValueIn)
CONFIG_CHANGES: TypeAdapter[ConfigChangesIn] = TypeAdapter(ConfigChangesIn)
