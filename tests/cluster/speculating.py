"""Writes whose first task hangs after its rows, so that Spark starts a copy of it elsewhere.

    python -m tests.cluster.speculating MASTER LOG_DIR

A record's value is `<number>/<attempt>`: what stands in the log tells which attempt was committed.
"""

import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from sparklog.spark import produce, session
from tests.cluster.driver import CONF

TASKS = 4
RECORDS = 100
HANGS_SECONDS = 100
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.eventLog.enabled": "false",
}


def hanging_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say which attempt each row is of; the first attempt of task 0 does not come to its end."""
    context = TaskContext.get()
    assert context is not None
    attempt = context.attemptNumber()
    for batch in batches:
        texts = [f"{number}/{attempt}" for number in batch.column("id").to_pylist()]
        yield pa.record_batch({"value": texts})
    if context.partitionId() == 0 and attempt == 0:
        time.sleep(HANGS_SECONDS)


def hanging(spark: SparkSession) -> DataFrame:
    """RECORDS rows in TASKS tasks, one of which hangs."""
    return spark.range(0, RECORDS, 1, TASKS).mapInArrow(hanging_once, "value string")


def main(master: str, log_dir: str) -> None:
    """Write them to the topic `produced` by produce, and to `written` by the data source."""
    spark = session("speculating", **{**CONF, **SPECULATION, "spark.master": master})
    produce(hanging(spark), log_dir, "produced")
    hanging(spark).write.format("sparklog").option("topic", "written").mode("append").save(log_dir)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
