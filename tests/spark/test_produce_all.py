"""produce_all: DataFrames to topics and offsets of groups, in one entry, once."""

import signal
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import sparklog.spark
from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import InvalidOptionError, OffsetOutOfRangeError, UsageError
from sparklog.model import TopicPartition
from sparklog.spark import produce_all
from tests.logs import all_values, append, catalog, log_files
from tests.spark.frames import by_topic, failing_task, numbers

pytestmark = pytest.mark.spark

ONCE: dict[str, Any] = {"txnAppId": "app", "txnVersion": 1}
OFFSETS = {"etl": {"t": {"0": 7}}}
EVEN, ODD = (sorted(map(str, range(first, 100, 2))) for first in (0, 1))


@pytest.fixture
def log(log_dir: str) -> str:
    """Topics `even` and `odd`, and `t` with ten records in partition 0."""
    AdminClient(log_dir).create_topics([NewTopic("even", 2), NewTopic("odd", 2)])
    append(log_dir, 0, range(10))
    return log_dir


def seen(log: str) -> tuple[list[str], list[str], int | None]:
    """The values of both topics, and the group's offset."""
    found = AdminClient(log).list_consumer_group_offsets("etl").get(TopicPartition("t", 0))
    return all_values(log, "even"), all_values(log, "odd"), found and found.offset


def test_all_of_it_is_one_entry(spark: SparkSession, log: str) -> None:
    AdminClient(log).alter_consumer_group_offsets("etl", {("t", 0): 0})
    version = catalog(log).image().version
    read = sparklog.spark.consume(spark, log, subscribe="t", groupId="etl")
    got = produce_all(by_topic(spark), log, offsets={"etl": sparklog.spark.ends(read)})

    assert (got.count, {place.topic for place in got.ranges}) == (100, {"even", "odd"})
    assert seen(log) == (EVEN, ODD, 10)
    assert catalog(log).image().version == version + 1


def test_a_replay_gets_the_first_answer_and_computes_nothing(spark: SparkSession, log: str) -> None:
    first = produce_all(by_topic(spark), log, OFFSETS, **ONCE)
    AdminClient(log).alter_consumer_group_offsets("etl", {("t", 0): 9})
    files = log_files(log)
    again = produce_all(by_topic(spark), log, OFFSETS, **ONCE)

    assert again.ranges == first.ranges
    assert again.replayed == {"even", "odd"}
    assert (seen(log), log_files(log)) == ((EVEN, ODD, 9), files)


@pytest.mark.parametrize(
    ("frames", "offsets", "options", "error"),
    [
        ((), {}, {}, InvalidOptionError),
        (("even",), {"etl": {"t": {"0": -1}}}, {}, OffsetOutOfRangeError),
        (("even",), {}, {"topic": "odd"}, InvalidOptionError),
        (("even",), {}, {"txnAppId": "app"}, InvalidOptionError),
    ],
)
def test_what_is_refused_writes_nothing(
    spark: SparkSession,
    log: str,
    frames: tuple[str, ...],
    offsets: dict[str, Any],
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    files = log_files(log)
    with pytest.raises(error):
        produce_all({name: numbers(spark) for name in frames}, log, offsets, **options)
    assert (seen(log), log_files(log)) == (([], [], None), files)


def test_a_stream_is_refused(spark: SparkSession, log: str) -> None:
    with pytest.raises(UsageError, match="foreachBatch"):
        produce_all({"even": spark.readStream.format("rate").load()}, log)


def test_a_version_that_landed_elsewhere_is_refused(spark: SparkSession, log: str) -> None:
    produce_all({"even": numbers(spark)}, log, **ONCE)
    with pytest.raises(InvalidOptionError, match="has landed in even, not in odd"):
        produce_all(by_topic(spark), log, **ONCE)


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, log: str) -> None:
    frames: dict[str, DataFrame] = by_topic(spark)
    frames["odd"] = numbers(spark, tasks=3).mapInArrow(failing_task, "value string")
    with pytest.raises(Exception, match="no such customer"):
        produce_all(frames, log, OFFSETS)
    assert seen(log) == ([], [], None)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_that_dies_at_the_commit_has_written_all_or_nothing(
    spark: SparkSession, log: str, moment: str
) -> None:
    command = [sys.executable, "-m", "tests.spark.killed_driver", log, moment, "all"]
    driver = subprocess.run(command, capture_output=True, text=True, check=False)
    assert driver.returncode == -signal.SIGKILL, driver.stderr
    has_landed = moment == "after"
    assert seen(log) == ((EVEN, ODD, 7) if has_landed else ([], [], None))

    again = produce_all(by_topic(spark), log, OFFSETS, **ONCE)
    assert again.replayed == ({"even", "odd"} if has_landed else set())
    assert seen(log) == (EVEN, ODD, 7)
