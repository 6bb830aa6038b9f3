"""DescribeLogDirs, AlterReplicaLogDirs. An instance answers for the partitions that it leads.

So the sizes that all brokers return add up to the size of the log dir. The size of a partition is
that of its live segments; a slice of a shared segment counts for its partition. There is only one
log dir, so no replica can be moved.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sparklog.errors import ErrorCode
from sparklog.metadata.state.image import Image
from sparklog.model import TopicDescription
from sparklog.storage.failures import os_errors
from sparklog.storage.files import Files
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.instances import in_racks_of, leaders_of, node_ids_of
from sparklog.wire.security.authorization import DENIED

UNKNOWN_BYTES: Final = -1
"""Total and usable bytes of an object store (KIP-827)."""
_Holds = Callable[[TopicDescription, int], bool]
"""Takes a topic and the number of a partition; returns whether something holds for it."""


async def describe_log_dirs(call: Call) -> Reply:
    """Return the answer; without READ on the cluster it has no log dir (KafkaApis)."""
    gateway, wanted = call.gateway, (await call.request()).topics
    if not call.allows(Scope.READ, resource=Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER], "results": []})
    image = await gateway.image()
    names, leads = image.names, _leads(call)

    def led() -> Mapping[str, Sequence[int]]:
        found = {
            name: [
                number
                for number in numbers
                if 0 <= number < names[name].num_partitions and leads(names[name], number)
            ]
            for name, numbers in _asked(wanted, names).items()
            if name in names and call.sees(name)
        }
        return {name: numbers for name, numbers in found.items() if numbers}

    mine = await gateway.at_length(led)  # a UI asks for all partitions
    opened = await gateway.opened(image, [names[name] for name in mine])
    files = gateway.catalog.files

    total_bytes, usable_bytes = await gateway.lookup(lambda: _space(files))

    def described() -> Reply:
        found = {
            "log_dir": files.uri,
            "topics": [_topic(opened, names[name], numbers) for name, numbers in mine.items()],
            "total_bytes": total_bytes,
            "usable_bytes": usable_bytes,
        }
        return call.answer({"results": [found]})

    return await gateway.at_length(described)


async def alter_replica_log_dirs(call: Call) -> Reply:
    """Return the answer: success if a replica is in the named log dir already (ReplicaManager)."""
    request = await call.request()
    names, is_here = (await call.gateway.image()).names, _has_replica(call)

    def answered() -> Reply:
        asked = {
            (topic.name, number): one.path
            for one in request.dirs
            for topic in one.topics
            for number in topic.partitions
        }
        results: dict[str, list[Mapping[str, Any]]] = {}
        for (name, number), path in asked.items():
            code = _code(call, is_here, names.get(name), number, path)
            results.setdefault(name, []).append({"partition_index": number, "error_code": code})
        answers = [{"topic_name": name, "partitions": some} for name, some in results.items()]
        return call.answer({"results": answers})

    return await call.step(answered)


def _code(
    call: Call, is_here: _Holds, topic: TopicDescription | None, number: int, path: str
) -> ErrorCode:
    """Return NONE if this instance has a replica in a log dir, else the error of Kafka's checks."""
    if not call.allows(Scope.ADMIN, resource=Resource.CLUSTER):
        return DENIED[Resource.CLUSTER]
    if path != call.gateway.catalog.files.uri:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if topic is None or not 0 <= number < topic.num_partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if is_here(topic, number) else ErrorCode.REPLICA_NOT_AVAILABLE


def _leads(call: Call) -> _Holds:
    """Return a function: whether this instance leads a partition, of those the client can reach."""
    own, node_ids = call.gateway.instances.own.node_id, node_ids_of(call.instances)
    return lambda topic, number: leaders_of(topic.topic_id, node_ids).of(number) == own


def _has_replica(call: Call) -> _Holds:
    """Return a function: whether this instance is a replica, of those the client can reach."""
    own, some = call.gateway.instances.own.node_id, call.instances
    ids, in_racks = node_ids_of(some), in_racks_of(some)
    return lambda topic, number: own in leaders_of(topic.topic_id, ids, in_racks).replicas(number)


def _asked(wanted: Any, names: Mapping[str, TopicDescription]) -> dict[str, list[int]]:
    """Return the requested partitions by topic; all partitions if the request names no topic."""
    if wanted is None:
        return {name: [*range(topic.num_partitions)] for name, topic in names.items()}
    found: dict[str, list[int]] = {}
    for one in wanted:
        found.setdefault(one.topic, []).extend(one.partitions)
    return found


def _topic(image: Image, topic: TopicDescription, numbers: Iterable[int]) -> Mapping[str, Any]:
    found = image.topic(topic.topic_id)
    partitions = [
        {
            "partition_index": number,
            "partition_size": 0
            if found is None
            else int(found.partition(number).segments.log_bytes.sum()),
        }
        for number in numbers
    ]
    return {"name": topic.name, "partitions": partitions}


def _space(files: Files) -> tuple[int, int]:
    """Return the total and the free bytes of the file system. Raises StorageError."""
    if not files.is_local:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
    with os_errors("measure", "", files.uri):
        usage = shutil.disk_usage(files.uri)
    return usage.total, usage.free
