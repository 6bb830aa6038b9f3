"""Planned ranges as a data source: the input of `consume` for a client of Spark Connect.

Such a client has no RDD, and numbers of ranges as rows would be a small table to Spark: it would
collect the log and broadcast it in a join. The size of a source is unknown.
"""

import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.spark.reading.plan import ReadRange
    from sparklog.spark.reading.read_task import RangesTask

PLAN: Final = "plan"
_KNOWING: "Final[WeakSet[SparkSession]]" = WeakSet()
"""The sessions that know the source."""


class RangesSource(DataSource):
    """Ranges that were planned before. The option PLAN has the task, and the ranges of each task.

    Spark sends the source and its reader to every task, so both let go of the plan before that.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that `format(…)` takes."""
        return "sparklog_ranges"

    def __init__(self, options: Mapping[str, str]) -> None:
        self._plan = options[PLAN]

    def reader(self, schema: StructType) -> "RangesReader":  # noqa: ARG002 - Spark's
        """Return the reader of the ranges. Call it once."""
        plan, self._plan = self._plan, ""
        return RangesReader(*pickle.loads(b64decode(plan)))  # noqa: S301 - the client's own


class RangesReader(DataSourceReader):
    """Reads the ranges of each task; a copy in a task has none but its own."""

    def __init__(self, task: "RangesTask", tasks: "Sequence[Sequence[ReadRange]]" = ()) -> None:
        self._task = task
        self._tasks = tasks

    def __reduce__(self) -> tuple[Any, ...]:
        return RangesReader, (self._task,)

    def partitions(self) -> list[InputPartition]:
        """Return an input partition for each task: its ranges."""
        return [InputPartition(list(one)) for one in self._tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the records of each range in the order of the log."""
        # Spark reads a source without partitions as one partition of nothing.
        return self._task.read(partition.value or ())


def ranges_frame(
    spark: SparkSession,
    task: "RangesTask",
    tasks: "Sequence[Sequence[ReadRange]]",
    schema: StructType,
) -> DataFrame:
    """Return the records of ranges; `tasks` has the ranges of each task."""
    if spark not in _KNOWING:
        spark.dataSource.register(RangesSource)
        _KNOWING.add(spark)
    plan = b64encode(pickle.dumps((task, [list(one) for one in tasks]))).decode()
    return spark.read.schema(schema).format(RangesSource.name()).option(PLAN, plan).load()
