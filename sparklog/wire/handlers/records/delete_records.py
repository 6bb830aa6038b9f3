"""DeleteRecords: log start offsets rise; segments go later, when the retention job runs."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sparklog.errors import ErrorCode, SparklogError
from sparklog.log.names import INTERNAL_TOPICS
from sparklog.model import TopicPartition
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.outcomes import check_admin, outcomes, refused

UNKNOWN_OFFSET: Final = -1


async def delete_records(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()

    def prepare(partition: TopicPartition, offset: int) -> int:
        check_admin(call, partition.topic)
        if partition.topic in INTERNAL_TOPICS:
            name = partition.topic
            raise refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} is internal")
        return offset

    def delete(wanted: dict[TopicPartition, int]) -> Iterable[object]:
        found = call.gateway.admin.each.delete_records(wanted)
        return [found[partition] for partition in wanted]

    entries = await call.step(lambda: _entries(request))
    found = await outcomes(call, entries, prepare, delete, request.timeout)
    return await call.step(lambda: _answered(call, found))


def _entries(request: Any) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic.name, one.partition_index), one.offset)
        for topic in request.topics
        for one in topic.partitions
    ]


def _answered(call: Call, found: Mapping[TopicPartition, Any]) -> Reply:
    topics: dict[str, list[dict[str, Any]]] = {}
    for partition, outcome in found.items():
        is_error = isinstance(outcome, SparklogError)
        fields = {
            "partition_index": partition.partition,
            "low_watermark": UNKNOWN_OFFSET if is_error else outcome,
            "error_code": outcome.code if is_error else ErrorCode.NONE,
        }
        topics.setdefault(partition.topic, []).append(fields)
    answers = [{"name": name, "partitions": some} for name, some in topics.items()]
    return call.answer({"topics": answers})
