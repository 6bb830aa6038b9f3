"""Bodies of v3's consumer groups. Names are Confluent's, except `lag_seconds`, `lag_state`."""

from pydantic import BaseModel

from sparklog.coordinator.lag_state import LagState
from sparklog.rest.schemas.models3 import ListMetadata, Related, ResourceData


class GroupData(ResourceData):
    """A consumer group."""

    kind: str = "KafkaConsumerGroup"
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    is_mixed_consumer_group: bool = False
    coordinator: Related | None = None
    consumers: Related
    lag_summary: Related


class GroupList(BaseModel):
    """The consumer groups."""

    kind: str = "KafkaConsumerGroupList"
    metadata: ListMetadata
    data: list[GroupData]


class ConsumerData(ResourceData):
    """A member of a group."""

    kind: str = "KafkaConsumer"
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related


class ConsumerList(BaseModel):
    """The members of a group."""

    kind: str = "KafkaConsumerList"
    metadata: ListMetadata
    data: list[ConsumerData]


class AssignmentData(ResourceData):
    """A partition that a member reads."""

    kind: str = "KafkaConsumerAssignment"
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class AssignmentList(BaseModel):
    """The partitions that a member reads."""

    kind: str = "KafkaConsumerAssignmentList"
    metadata: ListMetadata
    data: list[AssignmentData]


class LagData(ResourceData):
    """The lag of a group in a partition, and its state by Burrow's rules.

    `lag_seconds` is null if the next record has no timestamp, `lag_state` if there is a lag and
    fewer than two commits are known.
    """

    kind: str = "KafkaConsumerLag"
    consumer_group_id: str
    topic_name: str
    partition_id: int
    consumer_id: str
    instance_id: str | None
    client_id: str
    current_offset: int
    log_end_offset: int
    lag: int
    lag_seconds: float | None
    lag_state: LagState | None


class LagList(BaseModel):
    """The lag of a group in each partition that it has committed."""

    kind: str = "KafkaConsumerLagList"
    metadata: ListMetadata
    data: list[LagData]


class LagSummaryData(ResourceData):
    """The lag of a group: the total, and the largest one with its partition."""

    kind: str = "KafkaConsumerGroupLagSummary"
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_seconds: float | None
    lag_state: LagState | None
    max_lag_consumer: Related
    max_lag_partition: Related
