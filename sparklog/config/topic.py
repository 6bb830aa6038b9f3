"""A topic's configs, parsed once into typed fields."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sparklog.config.keys import ConfigKey, ConfigType
from sparklog.config.topic_keys import TOPIC_CONFIG_KEYS
from sparklog.errors import InvalidConfigError
from sparklog.model import Codec, TimestampType

PARSED_MAX: Final = 256
"""How many parsed configs are cached."""


class ConfigSource(StrEnum):
    """The place where a value was set (ConfigEntry.ConfigSource)."""

    DEFAULT = "DEFAULT_CONFIG"
    TOPIC = "DYNAMIC_TOPIC_CONFIG"


class ConfigEntry(NamedTuple):
    """One key of one topic, as `describe_configs` returns it. `value` is text."""

    name: str
    value: str
    source: ConfigSource
    type: ConfigType
    is_used: bool
    doc: str

    @property
    def is_default(self) -> bool:
        """Whether the topic does not set this key."""
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configs of a topic: a typed field for each key, and the overrides as they were given.

    `parse` builds it. Times are milliseconds, sizes are bytes. The row of a key in
    `TOPIC_CONFIG_KEYS` has its meaning, default and bounds; a test compares the fields below with
    that table.
    """

    cleanup_policy: tuple[str, ...]
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_build: str
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    orphan_retention_ms: int
    partitioner: str
    preallocate: bool
    reader_grace_ms: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    shared_segment_max_age_ms: int
    shared_segment_max_bytes: int
    table_delete: bool
    table_enable: bool
    table_retention_ms: int
    table_target_lag_ms: int
    unclean_leader_election_enable: bool
    overrides: tuple[tuple[str, str], ...] = field(default=())

    @classmethod
    def parse(cls, overrides: Mapping[str, object]) -> "TopicConfig":
        """Return the configs of a topic that sets `overrides`; every other key has its default.

        Values are text; a number or a boolean counts as its text. Raises InvalidConfigError for an
        unknown key (it names the nearest one), for a value out of its bounds, and for a
        min.compaction.lag.ms above max.compaction.lag.ms (LogConfig.validateValues).
        """
        return cls._parsed(tuple((name, str(value).strip()) for name, value in overrides.items()))

    @classmethod
    @lru_cache(PARSED_MAX)
    def _parsed(cls, overrides: tuple[tuple[str, str], ...]) -> "TopicConfig":
        # Cached: most topics of a log dir share a few configs, and gateways ask every second.
        given = {config_key(name).name: value for name, value in overrides}
        values: dict[str, Any] = {
            key.field: key.parse(given.get(key.name, key.default))
            for key in TOPIC_CONFIG_KEYS.values()
        }
        config = cls(**values, overrides=tuple(sorted(given.items())))
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise InvalidConfigError(
                f"min.compaction.lag.ms={config.min_compaction_lag_ms} is not allowed: it takes "
                f"at most max.compaction.lag.ms, which is {config.max_compaction_lag_ms}",
                key="min.compaction.lag.ms",
                value=str(config.min_compaction_lag_ms),
            )
        return config

    def describe(self) -> list[ConfigEntry]:
        """Return every key with its value as text and whether the topic sets it, sorted by name."""
        given = dict(self.overrides)
        return [
            ConfigEntry(
                name=key.name,
                value=given.get(key.name, key.default),
                source=ConfigSource.TOPIC if key.name in given else ConfigSource.DEFAULT,
                type=key.type,
                is_used=key.is_used,
                doc=key.doc,
            )
            for key in TOPIC_CONFIG_KEYS.values()
        ]

    @property
    def is_compacted(self) -> bool:
        """Whether compaction applies, so that every record needs a key."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention by age and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def delete_delay_ms(self) -> int:
        """How long, at the least, the files of a removed segment stay on disk."""
        return max(self.file_delete_delay_ms, self.reader_grace_ms)

    @property
    def max_segment_ms(self) -> int:
        """The span of timestamps, in ms, after which a segment rolls (LogConfig.maxSegmentMs)."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether a record has its producer's time, or the time of the append."""
        if self.message_timestamp_type == "LogAppendTime":
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def codec(self) -> Codec | None:
        """The codec of new segments; None: each produce chooses (BrokerCompressionType)."""
        if self.compression_type == "producer":
            return None
        return Codec[self.compression_type.upper().replace("UNCOMPRESSED", "NONE")]

    def compression_level(self, codec: Codec) -> int | None:
        """Return the topic's level for `codec`; None for a codec without levels."""
        return {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }.get(codec)


def every_config(overrides: Iterable[Mapping[str, str]]) -> list[TopicConfig]:
    """Return the different configs of several topics, and the configs without overrides.

    Raises InvalidConfigError.
    """
    given = {tuple(one.items()) for one in overrides}
    return [TopicConfig.parse(dict(one)) for one in {(), *given}]


def config_key(name: str) -> ConfigKey:
    """Return the row of a topic config. Raises InvalidConfigError, which names the nearest key."""
    key = TOPIC_CONFIG_KEYS.get(name)
    if key is None:
        near = get_close_matches(name, TOPIC_CONFIG_KEYS, n=1)
        allowed = "allowed are Kafka 4.1's topic configs and sparklog's own"
        hint = f"the nearest is {near[0]!r}" if near else allowed
        raise InvalidConfigError(f"{name!r} is not a topic config: {hint}", key=name)
    return key
