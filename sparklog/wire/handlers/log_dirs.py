"""DescribeLogDirs: the sizes of partitions, each from the instance that leads it.

So the sizes from all brokers add up to those of the log dir. A size is that of the live segments;
slices of shared segments count for their partitions.
"""

import shutil
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sparklog.metadata.image import Image
from sparklog.model import TopicDescription
from sparklog.storage.files import Files
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.instances import leader_of

UNKNOWN_BYTES: Final = -1
"""Total and usable bytes of an object store (KIP-827)."""


async def describe_log_dirs(call: Call) -> Reply:
    """Return the answer."""
    gateway, wanted = call.gateway, call.request().topics
    names = (await gateway.image()).names
    instances = gateway.instances.alive
    own = gateway.instances.own.node_id
    mine = {
        name: numbers
        for name, numbers in _asked(wanted, names).items()
        if name in names
        and call.sees(name)
        and leader_of(names[name].topic_id, instances).node_id == own
    }
    image = await gateway.image(*(names[name] for name in mine))
    files = gateway.catalog.files
    total_bytes, usable_bytes = await gateway.lookup(lambda: _space(files))
    told = [_topic(image, names[name], numbers) for name, numbers in mine.items()]
    found = {
        "log_dir": files.uri,
        "topics": told,
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }
    return call.answer({"results": [found]})


def _asked(wanted: Any, names: Mapping[str, TopicDescription]) -> dict[str, list[int]]:
    """Return the partitions that are asked for; without any all of them."""
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
        if 0 <= number < topic.num_partitions
    ]
    return {"name": topic.name, "partitions": partitions}


def _space(files: Files) -> tuple[int, int]:
    """Return the bytes of the file system, and those that are free."""
    if not files.is_local:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
    usage = shutil.disk_usage(files.uri)
    return usage.total, usage.free
