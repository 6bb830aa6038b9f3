"""Every topic config: one row per key.

The first two tables hold all topic configs of Kafka 4.1.1, with the names, types, defaults and
bounds of org.apache.kafka.storage.internals.log.LogConfig. KAFKA_KEYS mean the same here. KEPT_KEYS
mean nothing without brokers; they are accepted and kept, because configs travel with a topic.
SPARKLOG_KEYS are sparklog's own.

`segment.bytes` has Kafka's lower bound of 1 MiB (KIP-1030). The produce option of the same name may
be as small as 14 bytes, Kafka's bound before 4.0: one write may have small segments, for tests and
examples.
"""

from sparklog.config.keys import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    ConfigType,
    at_least,
    between,
    boolean,
    list_of,
    one_of,
    partitioner,
    replicas,
)

_BOOLEAN, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_DOUBLE, _STRING, _LIST = ConfigType.DOUBLE, ConfigType.STRING, ConfigType.LIST

_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_DAY_MS = 24 * 60 * 60 * 1000


def _int(name: str, default: int, minimum: int, doc: str, *, is_used: bool = True) -> ConfigKey:
    return ConfigKey(name, _INT, str(default), at_least(minimum, INT_MAX), doc, is_used)


def _long(name: str, default: int, minimum: int, doc: str, *, is_used: bool = True) -> ConfigKey:
    return ConfigKey(name, _LONG, str(default), at_least(minimum), doc, is_used)


def _unused_flag(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, _BOOLEAN, "false", boolean(), doc, is_used=False)


KAFKA_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "cleanup.policy",
        _LIST,
        "delete",
        list_of("compact", "delete"),
        "What happens to old records: delete them by age and size, keep the latest of each key, "
        "both, or neither (empty).",
    ),
    ConfigKey(
        "compression.type",
        _STRING,
        "producer",
        one_of(*_CODECS),
        "The codec of new segments; with producer, each produce chooses it.",
    ),
    ConfigKey(
        "compression.gzip.level",
        _INT,
        "-1",
        between(1, 9, also=-1),
        "The level when this topic's codec is gzip; -1 is the codec's own default.",
    ),
    ConfigKey(
        "compression.lz4.level",
        _INT,
        "9",
        between(1, 17),
        "The level when this topic's codec is lz4.",
    ),
    ConfigKey(
        "compression.zstd.level",
        _INT,
        "3",
        between(-131072, 22),
        "The level when this topic's codec is zstd.",
    ),
    _long(
        "delete.retention.ms",
        _DAY_MS,
        0,
        "How long compaction keeps a tombstone, so that a slow reader still sees it.",
    ),
    _long(
        "file.delete.delay.ms",
        60_000,
        0,
        "How long the files of a removed segment stay on disk, at the least.",
    ),
    _int("index.interval.bytes", 4096, 0, "How many bytes of log lie between two index entries."),
    _long(
        "max.compaction.lag.ms",
        LONG_MAX,
        1,
        "How long a record may stay uncompacted; on a compacted topic it also rolls segments.",
    ),
    _int(
        "max.message.bytes",
        1_048_588,
        0,
        "The largest record batch, its 61-byte header included.",
    ),
    _long(
        "message.timestamp.after.max.ms",
        60 * 60 * 1000,
        0,
        "How far a record's timestamp may lie ahead of the clock; CreateTime only.",
    ),
    _long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        0,
        "How far a record's timestamp may lie behind the clock; CreateTime only.",
    ),
    ConfigKey(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whether a record carries its producer's time, or the time of the produce.",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        between(0, 1),
        "The share of not yet compacted bytes above which a partition is compacted.",
    ),
    _long("min.compaction.lag.ms", 0, 0, "How long a record is safe from compaction."),
    _long(
        "retention.bytes",
        -1,
        -LONG_MAX - 1,
        "How many bytes a partition keeps; negative means no limit.",
    ),
    _long(
        "retention.ms",
        7 * _DAY_MS,
        -1,
        "How old a segment's youngest record may be before the segment is deleted; -1 is forever.",
    ),
    _int("segment.bytes", 1 << 30, 1 << 20, "The largest segment file."),
    _int(
        "segment.index.bytes",
        10 << 20,
        4,
        "The largest index file; a full index rolls the segment.",
    ),
    _long(
        "segment.jitter.ms",
        0,
        0,
        "The largest random time by which a segment rolls before segment.ms.",
    ),
    _long("segment.ms", 7 * _DAY_MS, 1, "The span of timestamps after which a segment rolls."),
)
"""Kafka's keys that mean the same here."""

KEPT_KEYS: tuple[ConfigKey, ...] = (
    _long(
        "flush.messages",
        LONG_MAX,
        1,
        "Kafka's fsync by record count; here every produce says flush=fsync or none.",
        is_used=False,
    ),
    _long(
        "flush.ms",
        LONG_MAX,
        0,
        "Kafka's fsync by time; here every produce says flush=fsync or none.",
        is_used=False,
    ),
    ConfigKey(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        replicas(),
        "Kafka's throttle of followers; there are none here.",
        is_used=False,
    ),
    ConfigKey(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        replicas(),
        "Kafka's throttle of leaders; there are none here.",
        is_used=False,
    ),
    _long(
        "local.retention.bytes",
        -2,
        -2,
        "Kafka's limit of bytes before tiering; here all bytes lie in one place.",
        is_used=False,
    ),
    _long(
        "local.retention.ms",
        -2,
        -2,
        "Kafka's limit of age before tiering; here all bytes lie in one place.",
        is_used=False,
    ),
    _int(
        "min.insync.replicas",
        1,
        1,
        "Kafka's number of replicas that must have a write; here the storage replicates.",
        is_used=False,
    ),
    _unused_flag("preallocate", "Kafka's reserved file space; here files are written once."),
    _unused_flag("remote.log.copy.disable", "Kafka's switch to stop tiering."),
    _unused_flag("remote.log.delete.on.disable", "Kafka's switch to drop tiered data."),
    _unused_flag("remote.storage.enable", "Kafka's tiering; here the log dir may be remote."),
    _unused_flag(
        "unclean.leader.election.enable",
        "Kafka's choice of availability over durability; there are no elections here.",
    ),
)
"""Kafka's keys that change nothing here: a value is checked against its bounds, kept and shown."""

SPARKLOG_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "index.build",
        _STRING,
        "write",
        one_of("write", "job"),
        "Who builds the indexes: the writer as it writes, or the index job later.",
    ),
    _long(
        "sparklog.orphan.retention.ms",
        _DAY_MS,
        0,
        "How old a file that no commit names must be before vacuum deletes it; a write that "
        "takes longer is refused at its commit.",
    ),
    ConfigKey(
        "sparklog.partitioner",
        _STRING,
        "default",
        partitioner(),
        "How a record without a partition gets one: default (murmur2 of the key; sticky without a "
        "key), round-robin, uniform-sticky, or module:function, your own over Arrow arrays.",
    ),
    _long(
        "sparklog.reader.grace.ms",
        _DAY_MS,
        0,
        "How long a reader's plan stays good: removed files stay on disk at least this long.",
    ),
    _long(
        "sparklog.shared.segment.max.age.ms",
        10 * 60 * 1000,
        0,
        "How old a slice of a shared segment becomes before merge_segments copies it into the "
        "partition's directory, even alone.",
    ),
    ConfigKey(
        "sparklog.table.delete",
        _BOOLEAN,
        "true",
        boolean(),
        "Whether vacuum deletes the topic's table when it erases a deleted topic.",
    ),
    ConfigKey(
        "sparklog.table.enable",
        _BOOLEAN,
        "false",
        boolean(),
        "Whether the job build_table keeps the topic's records as a Delta table, too.",
    ),
    _long(
        "sparklog.table.retention.ms",
        -1,
        -1,
        "How old the youngest record in a file of the table may be before the file is removed; "
        "-1 is forever.",
    ),
    _long(
        "sparklog.table.target.lag.ms",
        60_000,
        0,
        "How long a record may be missing from the table; then build_table copies it, even if "
        "the new file is small.",
    ),
    _int(
        "sparklog.shared.segment.max.bytes",
        1024 * 1024,
        0,
        "The largest size of a partition's batches in one write that go into a shared segment; "
        "a larger one gets a segment of its own. With 0 there are no shared segments.",
    ),
)
"""sparklog's own keys."""

TOPIC_CONFIG_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in sorted(KAFKA_KEYS + KEPT_KEYS + SPARKLOG_KEYS, key=lambda key: key.name)
}
"""Every topic config by name, sorted by name."""
