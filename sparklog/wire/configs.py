"""Configs as DescribeConfigs has them: Kafka's numbers of sources and types, and its synonyms.

A topic config takes its default from a broker config, its synonym, which mostly has another name.
Synonyms in other units (log.roll.hours) are left out, as in Kafka.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from sparklog.config import ConfigSource, ConfigType, TopicConfig

TOPIC: Final = 2
BROKER: Final = 4


class Source(IntEnum):
    """Where a value comes from (DescribeConfigsResponse.ConfigSource)."""

    DYNAMIC_TOPIC_CONFIG = 1
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


SOURCES: Final[Mapping[ConfigSource, Source]] = {
    ConfigSource.TOPIC: Source.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DEFAULT: Source.DEFAULT_CONFIG,
}
TYPES: Final[Mapping[ConfigType, int]] = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
}
"""The numbers of types (DescribeConfigsResponse.ConfigType)."""

SYNONYMS: Final[Mapping[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic configs and the broker configs of their defaults (ServerTopicConfigSynonyms)."""


class Synonym(NamedTuple):
    """One source of a value; the first synonym of a config is the one in force."""

    name: str
    value: str
    source: Source


class Config(NamedTuple):
    """One config of a resource, for DescribeConfigs. A sensitive one has no value there."""

    name: str
    value: str | None
    source: Source
    type: ConfigType
    doc: str
    synonyms: tuple[Synonym, ...]
    is_read_only: bool = False
    is_sensitive: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the fields of an answer."""
        return {
            "name": self.name,
            "value": self.value,
            "read_only": self.is_read_only,
            "config_source": self.source,
            "is_sensitive": self.is_sensitive,
            "synonyms": [one._asdict() for one in self.synonyms],
            "config_type": TYPES[self.type],
            "documentation": self.doc,
        }


def topic_configs(config: TopicConfig) -> list[Config]:
    """Return every config of a topic, by name."""
    defaults = {one.name: one.value for one in TopicConfig.parse({}).describe()}
    found = []
    for one in config.describe():
        synonyms = [] if one.is_default else [Synonym(one.name, one.value, SOURCES[one.source])]
        if one.name in SYNONYMS:
            name, default = SYNONYMS[one.name], defaults[one.name]
            synonyms.append(Synonym(name, default, Source.DEFAULT_CONFIG))
        source = SOURCES[one.source]
        found.append(Config(one.name, one.value, source, one.type, one.doc, tuple(synonyms)))
    return found


def fixed(name: str, value: str, kind: ConfigType, doc: str) -> Config:
    """Return a broker config that always has its default."""
    source = Source.DEFAULT_CONFIG
    synonym = Synonym(name, value, source)
    return Config(name, value, source, kind, doc, (synonym,), is_read_only=True)
