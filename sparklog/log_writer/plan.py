"""The plan of a write: settings and numbers of a topic, made once for each produce."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sparklog.config import TopicConfig
from sparklog.log.names import check_not_internal
from sparklog.log.roll import RollPolicy
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import TopicImage
from sparklog.model import Codec, SegmentEntry, TimestampType, TopicDescription
from sparklog.record.batch_settings import BatchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a produce; for an option that is None the topic's config counts.

    `compression_type`, `batch_size` (bytes before compression) and `partitioner` are Kafka's
    producer configs. `segment_bytes` may be below the smallest value that a topic may have. `flush`
    says whether files are synced. With `keeps_offsets` records keep their own offsets, with
    `allow_offset_gaps` also if these have gaps.
    """

    compression_type: str | None = None
    batch_size: int = 16384
    partitioner: str | None = None
    segment_bytes: int | None = None
    flush: bool = True
    keeps_offsets: bool = False
    allow_offset_gaps: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "WriteOptions":
        """Return the options of the typed values of PRODUCE_OPTIONS (sparklog.config.options)."""
        return cls(
            compression_type=given["compression.type"],
            batch_size=given["batch.size"],
            partitioner=given["partitioner"],
            segment_bytes=given["segment.bytes"],
            flush=given["flush"] == "fsync",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """Settings and numbers of a topic for its writers. Picklable.

    `now_ms` is the planning time: the time of records that have none, and LogAppendTime.
    `end_offsets` and `leader_epochs` are by partition; a missing one is 0. A writer numbers its
    records from the partition's end offset, so its first segment of a partition is sealed if no
    other commit comes between.
    """

    topic: TopicDescription
    config: TopicConfig
    now_ms: int
    options: WriteOptions = field(default_factory=WriteOptions)
    end_offsets: Mapping[int, int] = field(default_factory=dict)
    leader_epochs: Mapping[int, int] = field(default_factory=dict)

    def epochs_of(self, entries: Iterable[SegmentEntry]) -> dict[int, int]:
        """Return the leader epoch of each partition that has one of the segments."""
        return {one.partition: self.leader_epochs.get(one.partition, 0) for one in entries}

    @property
    def partitioner(self) -> str:
        """The name of the partitioner: that of the options, else the topic's."""
        return self.options.partitioner or self.config.partitioner

    @property
    def _segment_bytes(self) -> int:
        return self.options.segment_bytes or self.config.segment_bytes

    @property
    def is_append_time(self) -> bool:
        """Whether records get the time of the append (LogAppendTime)."""
        return self.config.timestamp_type is TimestampType.LOG_APPEND_TIME

    @property
    def batch_settings(self) -> BatchSettings:
        """How batches are encoded. A topic's own codec comes before that of the options."""
        codec = self.config.codec
        if codec is None:
            codec = Codec[(self.options.compression_type or "none").upper()]
        return BatchSettings(
            codec=codec,
            level=self.config.compression_level(codec),
            # A batch larger than a segment would be refused.
            batch_bytes=min(self.options.batch_size, self._segment_bytes),
            max_message_bytes=self.config.max_message_bytes,
            timestamp_type=self.config.timestamp_type,
            log_append_time_ms=self.now_ms if self.is_append_time else -1,
        )

    @property
    def shared_bytes_max(self) -> int:
        """See `shared_bytes_max`."""
        return shared_bytes_max(self.config, self.options)

    @property
    def roll_policy(self) -> RollPolicy:
        """When a segment is full."""
        return RollPolicy(
            segment_bytes=self._segment_bytes,
            segment_ms=self.config.max_segment_ms,
            jitter_ms=self.config.segment_jitter_ms,
            index_interval_bytes=self.config.index_interval_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
        )


def shared_bytes_max(config: TopicConfig, options: WriteOptions) -> int:
    """Return the most bytes that a partition may put into a shared segment; 0: none."""
    return min(config.shared_segment_max_bytes, options.segment_bytes or config.segment_bytes)


def plan_write(catalog: Catalog, topic: str, options: WriteOptions) -> WritePlan:
    """Return the plan of a client's write to a topic, from the newest image.

    Raises UnknownTopicError, and InvalidTopicError for an internal topic.
    """
    check_not_internal(topic)
    image = catalog.topic_image(catalog.topic(topic))
    return plan_write_on(image, catalog.clock.now_ms(), options)


def plan_write_on(topic: TopicImage, now_ms: int, options: WriteOptions) -> WritePlan:
    """Return the plan of a write to a topic as an image has it."""
    states = {number: log.state for number, log in topic.partitions.items()}
    return WritePlan(
        topic=topic.description,
        config=config_of(topic.description),
        now_ms=now_ms,
        options=options,
        end_offsets={number: state.log_end_offset for number, state in states.items()},
        leader_epochs={
            number: state.leader_epoch for number, state in states.items() if state.leader_epoch
        },
    )


def config_of(topic: TopicDescription) -> TopicConfig:
    """Return the configs of a topic."""
    return _parsed(tuple(topic.configs.items()))


@lru_cache(1024)
def _parsed(configs: tuple[tuple[str, str], ...]) -> TopicConfig:
    return TopicConfig.parse(dict(configs))
