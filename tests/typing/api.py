"""The public API as users write it: mypy --strict reads this file, nothing runs it."""

from pathlib import Path

from sparklog import (
    AdminClient,
    AlterConfigOp,
    NewTopic,
    OffsetRange,
    OpType,
    TimestampOffset,
    TopicPartition,
    __version__,
    errors,
)

admin = AdminClient("log")
AdminClient(Path("log"), {"AWS_REGION": "eu-west-1"})

admin.create_topics([NewTopic("flights", 4, config={"retention.ms": -1})])
admin.create_topics([NewTopic("flights")], validate_only=True)
names: list[str] = admin.list_topics()
partitions: int = admin.describe_topics(["flights"])[0].num_partitions
values: dict[str, str] = {entry.name: entry.value for entry in admin.describe_configs("flights")}
admin.incremental_alter_configs(
    {
        "flights": [
            AlterConfigOp("segment.ms", 1000),
            AlterConfigOp("retention.ms", op=OpType.DELETE),
        ]
    }
)
admin.create_partitions({"flights": 8})
admin.delete_topics(["flights"])
topic_id: str = admin.list_deleted_topics()[0].topic_id
configs: dict[str, str] = admin.undelete_topic("flights", topic_id=topic_id).configs

place = TopicPartition("flights", 0)
places: dict[TopicPartition, int] = {place: 5}
low: int = admin.delete_records(places)[place]
low = admin.delete_records({("flights", 0): 5})[place]
found: TimestampOffset = admin.list_offsets({place: -1})[place]
offset: int = found.offset
span: int = OffsetRange(0, 5, 9).span

try:
    admin.describe_topics(["none"])
except errors.UnknownTopicError as error:
    code: int = error.code
    retriable: bool = error.retriable
except errors.SparklogError as error:
    message: str = error.message

release: str = __version__
