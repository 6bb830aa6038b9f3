from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparklog.config import TopicConfig
from sparklog.log_writer import WriteOptions, WritePlan
from sparklog.model import TopicDescription
from sparklog.spark.writing.cluster import AssignTask
from sparklog.spark.writing.write_task import WriteTask
from sparklog.storage.memory import MemoryFiles

PLAN = WritePlan(
    topic=TopicDescription("t", "A" * 22, 16, {}, 0),
    config=TopicConfig.parse({}),
    now_ms=0,
    options=WriteOptions(batch_size=64),
)
KEYLESS = pa.RecordBatch.from_pydict({"value": [b"%05d" % number for number in range(500)]})


def assigned(seed: int) -> list[int]:
    """The partitions that one run of a task chooses for rows without keys."""
    task = AssignTask(WriteTask(MemoryFiles(), {"t": PLAN}, "t", seed=seed))
    partitions: list[int] = next(task(iter([KEYLESS]))).column("partition").to_pylist()
    return partitions


class TestAssignTask:
    @pytest.mark.parametrize("partitioner", ["default", "uniform-sticky", "round-robin"])
    def test_sends_each_row_to_its_partition_whatever_the_order(self, partitioner: str) -> None:
        """Goal: a task that runs again after a shuffle loses no row. Method: rows in reverse."""
        plan = replace(PLAN, options=WriteOptions(partitioner=partitioner))
        found = []
        for rows in (KEYLESS, KEYLESS.take(np.arange(499, -1, -1))):
            task = AssignTask(WriteTask(MemoryFiles(), {"t": plan}, "t", seed=7))
            halves = task(iter([rows.slice(0, 100), rows.slice(100)]))
            found.append({tuple(row.values()) for half in halves for row in half.to_pylist()})

        assert found[0] == found[1]

    def test_that_runs_again_chooses_the_same(self) -> None:
        assert assigned(seed=7) == assigned(seed=7)

    def test_of_another_produce_chooses_otherwise(self) -> None:
        assert assigned(seed=7) != assigned(seed=8)

    def test_spreads_rows_without_keys(self) -> None:
        assert len(set(assigned(seed=7))) > 4
