"""A produce meets others and fate: its topic goes or grows, a process dies, its disk fails."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.admin import AdminClient
from sparklog.errors import StorageError, TopicClosedError
from sparklog.spark import produce
from tests.logs import all_values, log_files, new_topic, rows, values
from tests.spark.frames import numbers, one, own_files, two_topics

pytestmark = pytest.mark.spark

HERE = "tests.spark.frames"


class TestTopic:
    def test_that_is_deleted_meanwhile_refuses_the_commit(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        own_files(log_dir)
        df = numbers(spark, 10, tasks=1).selectExpr(f"'{log_dir}' value")

        with pytest.raises(TopicClosedError, match="was deleted: nothing more can be written"):
            produce(df, log_dir, "t", partitioner=f"{HERE}:deleting_its_topic")
        assert AdminClient(log_dir).list_topics() == []
        assert log_files(log_dir) != []

    def test_that_grows_meanwhile_keeps_the_plan_valid(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        df = numbers(spark, 40).selectExpr(f"'{log_dir}' value")
        produce(df, log_dir, "t", partitioner=f"{HERE}:growing_its_topic")
        before = {partition: len(found) for partition, found in values(log_dir).items()}
        produce(numbers(spark, 90, tasks=1), log_dir, "t", partitioner="round-robin")

        assert before == dict.fromkeys(range(4), 10)
        assert {len(found) for found in list(values(log_dir).values())[4:]} == {10}


class TestDriver:
    @pytest.mark.parametrize(("moment", "landed"), [("before", 0), ("after", 50)])
    def test_that_dies_at_the_commit_has_written_all_topics_or_none(
        self, spark: SparkSession, log_dir: str, moment: str, landed: int
    ) -> None:
        for name in ("even", "odd"):
            new_topic(log_dir, name)
        driver = subprocess.run(
            [sys.executable, "-m", "tests.spark.killed_driver", log_dir, moment, "one"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert driver.returncode == -signal.SIGKILL, driver.stderr
        assert [len(all_values(log_dir, name)) for name in ("even", "odd")] == [landed, landed]

        again = produce(two_topics(spark), log_dir, txnAppId="app", txnVersion=1)

        assert again.replayed == ({"even", "odd"} if landed else set())
        assert again.count == 100
        assert all_values(log_dir, "even") == sorted(map(str, range(0, 100, 2)))
        assert all_values(log_dir, "odd") == sorted(map(str, range(1, 100, 2)))
        for key, got in again.ranges.items():
            assert [row.offset for row in rows(log_dir, key.topic)[key.partition]] == list(
                range(got.start, got.end)
            )


class TestWorker:
    def test_that_is_killed_loses_and_doubles_nothing(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        options = {"topic": "t", "partitioner": f"{HERE}:killed_once"}
        produce(numbers(spark, 50), log_dir, **options)
        assert all_values(log_dir) == sorted(map(str, range(50)))

        numbers(spark, 50).write.format("sparklog").options(**options).mode("append").save(log_dir)
        assert all_values(log_dir) == sorted(2 * [str(number) for number in range(50)])


class TestStorage:
    def test_that_refuses_a_file_is_named(self, spark: SparkSession, log_dir: str) -> None:
        own_files(log_dir)
        produce(one(spark, "1 partition"), log_dir, "t")
        (topic,) = Path(log_dir).glob("t-*")
        (topic / "t-0").write_text("a file where a directory must be")

        with pytest.raises(StorageError, match=r"cannot create t-.*/t-0/0+\.[0-9a-f-]+\.log in "):
            produce(one(spark, "0 partition"), log_dir, "t")
        assert produce(one(spark, "1 partition"), log_dir, "t").count == 1
