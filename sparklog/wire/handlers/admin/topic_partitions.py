"""DescribeTopicPartitions: topics in the order of their names, a page of partitions at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparklog.errors import ErrorCode
from sparklog.log.names import INTERNAL_TOPICS, topic_name_problem
from sparklog.metadata.state.image import Image
from sparklog.model import TopicDescription
from sparklog.tokens import Resource
from sparklog.wire.broker_configs import PARTITIONS_DESCRIBED_MAX
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.operations import topic_operations
from sparklog.wire.handlers.partitions import step_for
from sparklog.wire.instances import Instance, in_racks_of, leaders_of, node_ids_of
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.security.authorization import DENIED
from sparklog.wire.topic_bytes import NO_EPOCH

_Fields = dict[str, Any]


async def describe_topic_partitions(call: Call) -> Reply:
    """Return the answer. Without names it has all topics that the client may see."""
    request = await call.request()
    image = await call.gateway.image()
    names = await call.step(lambda: sorted({one.name for one in request.topics}))
    cursor = request.cursor
    if cursor is not None and (
        cursor.partition_index < 0 or (names and cursor.topic_name not in names)
    ):
        code = ErrorCode.INVALID_REQUEST
        return await call.step(
            lambda: call.answer({"topics": [_problem(call, name, code) for name in names]})
        )
    wanted = names or [name for name in image.names if call.sees(name)]
    start = 0 if cursor is None else cursor.partition_index
    if cursor is not None:
        wanted = [name for name in wanted if name >= cursor.topic_name]
        start = start if wanted[:1] == [cursor.topic_name] else 0
    limit = min(max(request.response_partition_limit, 1), PARTITIONS_DESCRIBED_MAX)
    page = _Page(limit, start)
    pages = await call.step(lambda: list(page.of(call, image, wanted)))
    known = [topic for topic, _ in pages if not isinstance(topic, dict)]
    image, instances = await call.gateway.opened(image, known), call.instances

    def answered() -> Reply:
        topics = [
            topic if isinstance(topic, dict) else _described(call, image, instances, topic, numbers)
            for topic, numbers in pages
        ]
        return call.answer({"topics": topics, "next_cursor": page.following})

    count = sum(len(numbers) for _, numbers in pages)
    return await step_for(call, count, answered)


class _Page:
    """The partitions in one answer. `following` is where the next answer begins."""

    def __init__(self, limit: int, start: int) -> None:
        self._left = limit
        self._start = start
        self.following: _Fields | None = None

    def of(
        self, call: Call, image: Image, names: Iterable[str]
    ) -> Iterator[tuple[TopicDescription | _Fields, Sequence[int]]]:
        """Yield topics and their partitions, or answers with the reason why there are none."""
        for name in names:
            problem = _code(call, image, name)
            if problem is not None:
                yield _problem(call, name, problem), ()
                continue
            topic = image.names[name]
            numbers = range(self._start, topic.num_partitions)[: self._left]
            if numbers or topic.num_partitions <= self._start:
                yield topic, numbers
            self._left -= len(numbers)
            end = self._start + len(numbers)
            if end < topic.num_partitions:
                self.following = {"topic_name": name, "partition_index": end}
                return
            self._start = 0


def _code(call: Call, image: Image, name: str) -> ErrorCode | None:
    if not call.sees(name):
        return DENIED[Resource.TOPIC]
    if topic_name_problem(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return None if name in image.names else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _problem(call: Call, name: str, code: ErrorCode) -> _Fields:
    operations = topic_operations(call, name)
    return {"error_code": code, "name": name, "topic_authorized_operations": operations}


def _described(
    call: Call,
    image: Image,
    instances: Sequence[Instance],
    topic: TopicDescription,
    numbers: Sequence[int],
) -> Mapping[str, Any]:
    found = image.topic(topic.topic_id)
    opened = found if found is not None and found.is_open else None
    leaders = leaders_of(topic.topic_id, node_ids_of(instances), in_racks_of(instances))
    partitions = [
        {
            "partition_index": number,
            "leader_id": leaders.of(number),
            "leader_epoch": NO_EPOCH if opened is None else opened.partition(number).leader_epoch,
            "replica_nodes": leaders.replicas(number),
            "isr_nodes": leaders.replicas(number),
            "eligible_leader_replicas": (),
            "last_known_elr": (),
        }
        for number in numbers
    ]
    return {
        "name": topic.name,
        "topic_id": uuid_of(topic.topic_id),
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": partitions,
        "topic_authorized_operations": topic_operations(call, topic.name),
    }
