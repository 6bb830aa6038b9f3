"""Spark as a consumer group: batches that go on where they were, streams that others can see."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparklog.spark
from sparklog.admin import AdminClient
from tests.logs import append
from tests.waiting import until

pytestmark = pytest.mark.spark


@pytest.fixture
def log(log_dir: str) -> str:
    """Topic `t` with 10 records in each of its 4 partitions."""
    for partition in range(4):
        append(log_dir, partition, range(10))
    return log_dir


def lag(log_dir: str, group: str) -> int | None:
    """The lag of a group; None before its first commit."""
    found = AdminClient(log_dir).consumer_group_lags(in_time=False).get(group)
    return None if found is None else sum(one.lag or 0 for one in found)


def test_a_batch_goes_on_where_the_group_has_committed(spark: SparkSession, log: str) -> None:
    def run() -> int:
        given = {"subscribe": "t", "groupId": "nightly", "startingOffsets": "committed"}
        df = sparklog.spark.consume(spark, log, **given)
        count = df.count()
        sparklog.spark.commit_group(spark, log, "nightly", sparklog.spark.ends(df))
        return count

    assert run() == 40
    append(log, 2, range(5))
    assert (lag(log, "nightly"), run(), run(), lag(log, "nightly")) == (5, 5, 0, 0)


def test_a_stream_has_no_lag_after_available_now(
    spark: SparkSession, log: str, tmp_path: Path
) -> None:
    source = spark.readStream.format("sparklog").option("subscribe", "t")
    source = source.options(startingOffsets="earliest", groupId="stream", maxOffsetsPerTrigger=16)
    writer = source.load(log).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert lag(log, "stream") == 0


def test_a_stream_that_is_idle_has_no_lag(spark: SparkSession, log: str, tmp_path: Path) -> None:
    source = spark.readStream.format("sparklog").option("subscribe", "t")
    source = source.options(startingOffsets="earliest", groupId="stream")
    writer = source.load(log).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for _ in range(2):
            append(log, 1, range(3))
            query.processAllAvailable()
            until(lambda: lag(log, "stream") == 0)
    finally:
        query.stop()
