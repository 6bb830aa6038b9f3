"""A driver with two queries, which may be killed at any time: `rate` to topic `a`, and `a` to `b`.

    python -m tests.spark.stream_driver LOG_DIR CHECKPOINT_DIR MASTER WHAT

WHAT is "run" (until killed), "finish" (copy what is in `a`, then end), or a point at which the
process group kills itself (-9) when it comes there for the second time: see POINTS.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from sparklog.spark import session
from sparklog.spark.datasource import SparklogDataSource
from sparklog.spark.reading.stream_reader import StreamReader
from sparklog.spark.writing.writers import StreamWriter
from tests.kafka.jars import SHORT_LIVED

POINTS = ("after write", "before commit", "after commit", "in latestOffset", "in partitions")
TIMES = 2
PARTITIONS = 3
ROWS_PER_SECOND = 300
CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.task.maxFailures": "20",  # tasks of a worker that is killed are tried elsewhere
}
_GROUP, _POINT, _FOLDER = "TEST_GROUP", "TEST_POINT", "TEST_FOLDER"


def pass_by(point: str) -> None:
    """Kill everything if this is the point, and it is passed for the last time."""
    if os.environ.get(_POINT) != point:
        return
    passed = Path(os.environ[_FOLDER]) / f"passed-{os.environ[_GROUP]}"
    with passed.open("a") as file:
        file.write(".")
    if passed.stat().st_size >= TIMES:
        os.killpg(int(os.environ[_GROUP]), signal.SIGKILL)
        time.sleep(60)  # the JVM is gone, and this worker soon after


class PassingWriter(StreamWriter):
    """Passes by points where it writes and commits."""

    def write(self, iterator: Iterator[Any]) -> Any:
        message = super().write(iterator)
        pass_by("after write")
        return message

    def commit(self, messages: list[Any], batchId: int) -> None:
        pass_by("before commit")
        super().commit(messages, batchId)
        pass_by("after commit")


class PassingReader(StreamReader):
    """Passes by points where it plans."""

    def latestOffset(self, start: Any, limit: Any) -> Any:
        pass_by("in latestOffset")
        return super().latestOffset(start, limit)

    def partitions(self, start: Any, end: Any) -> Any:
        pass_by("in partitions")
        return super().partitions(start, end)


class PassingSource(SparklogDataSource):
    """The data source, with readers and writers that may kill."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        made = super().streamReader(schema)
        made.__class__ = PassingReader
        return made

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        made = super().streamWriter(schema, overwrite)
        made.__class__ = PassingWriter
        return made


def rate(spark: SparkSession) -> DataFrame:
    """0, 1, 2, … in time, to a partition that the number decides."""
    source = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_SECOND)
    return (
        source.option("numPartitions", 2)
        .load()
        .selectExpr("cast(value as string) value", f"cast(value % {PARTITIONS} as int) partition")
    )


def copied(spark: SparkSession, log_dir: str) -> DataFrame:
    """Topic `a`, every record to the partition that it is in."""
    source = spark.readStream.format("sparklog").option("subscribe", "a")
    return source.option("startingOffsets", "earliest").load(log_dir).select("value", "partition")


def start(
    df: DataFrame, topic: str, log_dir: str, checkpoints: str, **trigger: Any
) -> StreamingQuery:
    """Write a stream to a topic."""
    writer = df.writeStream.format("sparklog").option("topic", topic)
    where = f"{checkpoints}/{topic}"
    return writer.option("checkpointLocation", where).trigger(**trigger).start(log_dir)


def main(log_dir: str, checkpoints: str, master: str, what: str) -> None:
    """Run the queries."""
    os.environ[_GROUP], os.environ[_FOLDER] = str(os.getpgrp()), checkpoints
    os.environ[_POINT] = what
    spark = session("streams", **CONF, **{"spark.master": master})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(PassingSource)
    run: Callable[..., StreamingQuery] = start
    if what == "finish":
        run(copied(spark, log_dir), "b", log_dir, checkpoints, availableNow=True).awaitTermination()
        spark.stop()
        return
    often = {"processingTime": "100 milliseconds"}
    queries = [
        run(rate(spark), "a", log_dir, checkpoints, **often),
        run(copied(spark, log_dir), "b", log_dir, checkpoints, **often),
    ]
    while not all(query.lastProgress for query in queries):
        time.sleep(0.1)
    print("running", flush=True)
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
