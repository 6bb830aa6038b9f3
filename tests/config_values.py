"""Kafka 4.1.1's topic configs as values: tests/kafka asks a broker whether they are right."""

from sparklog.config.keys import INT_MAX, LONG_MAX

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""Every topic config of Kafka and its default."""

KAFKA_BOUNDS: list[tuple[str, tuple[object, ...], tuple[object, ...]]] = [
    ("segment.bytes", (1 << 20, INT_MAX), ((1 << 20) - 1, INT_MAX + 1)),
    ("segment.index.bytes", (4,), (3,)),
    ("segment.ms", (1,), (0,)),
    ("retention.bytes", (-LONG_MAX - 1, -7), (LONG_MAX + 1,)),
    ("max.compaction.lag.ms", (1,), (0,)),
    ("max.message.bytes", (0,), (-1,)),
    ("compression.gzip.level", (-1, 1, 9), (-2, 0, 10)),
    ("compression.lz4.level", (1, 17), (0, 18)),
    ("compression.zstd.level", (-131072, 22), (-131073, 23)),
    ("min.cleanable.dirty.ratio", (0, 0.5, 1), (-0.01, 1.01)),
    ("compression.type", ("uncompressed", "producer"), ("none", "ZSTD")),
    ("message.timestamp.type", ("LogAppendTime",), ("createtime",)),
    ("cleanup.policy", ("", "delete,delete"), ("Compact", "delete,", "keep")),
    ("leader.replication.throttled.replicas", ("", "*", "1:2, 3:4"), ("1", "*,1:2")),
]
"""Key, values that Kafka takes, values that it refuses."""
