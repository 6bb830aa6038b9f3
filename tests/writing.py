"""A writer of records for one task, over files in memory."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from sparklog.clock import ManualClock
from sparklog.config import TopicConfig
from sparklog.log_writer import TopicWriter, WriteOptions, WritePlan
from sparklog.model import TopicDescription
from sparklog.storage.memory import MemoryFiles
from tests.logs import OWN_FILES

TOPIC = TopicDescription("t", "0123456789abcdefghijkl", 2, {}, 0)

NOW_MS = ManualClock().now_ms()
HOUR_MS = 3600 * 1000


def plan(
    config: dict[str, object] | None = None, partitions: int = 2, epoch: int = 0, **options: Any
) -> WritePlan:
    """A plan for a topic whose segments are files of its own."""
    return WritePlan(
        topic=replace(TOPIC, num_partitions=partitions),
        config=TopicConfig.parse(OWN_FILES | (config or {})),
        now_ms=NOW_MS,
        options=WriteOptions(**options),
        leader_epochs=dict.fromkeys(range(partitions), epoch),
    )


def writer(files: MemoryFiles, wanted: WritePlan | None = None) -> TopicWriter:
    """A writer of such a plan."""
    return TopicWriter(files, wanted or plan(), ManualClock(), seed=0)


def at(partition: int, count: int) -> pa.Array:
    """The partitions of rows that are all for one."""
    return pa.array([partition] * count, pa.int32())
