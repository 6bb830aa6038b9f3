"""DataFrames that tests produce, and functions that run in Spark's workers."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from sparklog.admin import AdminClient, AlterConfigOp
from sparklog.errors import InvalidPartitionsError, StorageError
from tests.logs import OWN_FILES


def numbers(spark: SparkSession, count: int = 100, *columns: str, tasks: int = 2) -> DataFrame:
    """`value` "0", "1", …, in order over `tasks` tasks, and more columns, which may use `id`."""
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as string) value", *columns)


def one(spark: SparkSession, *columns: str, value: str = "'v'") -> DataFrame:
    """One record."""
    return spark.range(1).selectExpr(f"{value} value", *columns)


def last_partition(_key: pa.Array, value: pa.Array, num_partitions: int) -> NDArray[np.int64]:
    """A partitioner of one's own."""
    return np.full(len(value), num_partitions - 1)


def raising(_key: pa.Array, _value: pa.Array, _num_partitions: int) -> Any:
    """A partitioner with a bug."""
    raise KeyError("no such customer")


def failing_once(_key: pa.Array, value: pa.Array, _num_partitions: int) -> NDArray[np.int64]:
    """A partitioner that stands for a storage that fails the first time."""
    if _attempt() == 0:
        raise StorageError("cannot write: the network is away")
    return np.zeros(len(value), np.int64)


def failing_always(_key: pa.Array, _value: pa.Array, _num_partitions: int) -> Any:
    """A partitioner that stands for a storage that is gone."""
    raise StorageError(f"cannot write: attempt {_attempt()}")


def killed_once(_key: pa.Array, value: pa.Array, _num_partitions: int) -> NDArray[np.int64]:
    """A partitioner whose worker is killed the first time, as by a machine without memory."""
    if _attempt() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.zeros(len(value), np.int64)


def _attempt() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


def deleting_its_topic(_key: pa.Array, value: pa.Array, _num_partitions: int) -> NDArray[np.int64]:
    """Topic `t` of the log dir that the value names is deleted while its rows are written."""
    client = AdminClient(value[0].as_py())
    if client.list_topics():
        client.delete_topics(["t"])
    return np.zeros(len(value), np.int64)


def growing_its_topic(_key: pa.Array, value: pa.Array, num_partitions: int) -> NDArray[np.int64]:
    """Topic `t` of the log dir that the value names gets partitions while its rows are written."""
    with suppress(InvalidPartitionsError):  # another task was faster
        AdminClient(value[0].as_py()).create_partitions({"t": 9})
    return np.arange(len(value)) % num_partitions


def two_topics(spark: SparkSession) -> DataFrame:
    """Even numbers below 100 for topic `even`, odd ones for topic `odd`, keyed by themselves."""
    return numbers(spark, 100, "if(id % 2 = 0, 'even', 'odd') topic", "value key")


def by_topic(spark: SparkSession) -> dict[str, DataFrame]:
    """The same as a DataFrame a topic."""
    df = two_topics(spark)
    return {name: df.where(f"topic = '{name}'").drop("topic") for name in ("even", "odd")}


def slow_but_for_the_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are, after a second in every task but the one of number 0."""
    context = TaskContext.get()
    assert context is not None
    time.sleep(1.0 if context.partitionId() else 0.0)
    yield from batches


def failing_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are, until one task, which by then has written some, fails."""
    yield from batches
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 2:
        raise KeyError("no such customer")


def parent_of_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The command line of the process that a worker was forked from."""
    for _ in batches:
        command = Path(f"/proc/{os.getppid()}/cmdline").read_text().replace("\0", " ")
        yield pa.record_batch({"command": [command]})


def own_files(log_dir: str | Path) -> None:
    """Give the topic t OWN_FILES."""
    changes = [AlterConfigOp(key, value) for key, value in OWN_FILES.items()]
    AdminClient(log_dir).incremental_alter_configs({"t": changes})
