"""format("sparklog") in streams, driven by Spark: triggers, restarts, sinks, progress, errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sparklog.admin import AdminClient
from sparklog.spark import produce
from tests.logs import all_values, append, new_topic, values
from tests.spark.frames import numbers

pytestmark = pytest.mark.spark


@pytest.fixture
def log(log_dir: str) -> str:
    """Topic `t` with 10 records in each of its 4 partitions, and an empty topic `copy` of 5."""
    for partition in range(4):
        append(log_dir, partition, range(partition * 10, partition * 10 + 10))
    return new_topic(log_dir, "copy", 5)


def stream(spark: SparkSession, log_dir: str, **options: Any) -> DataFrame:
    given = {"subscribe": "t", "startingOffsets": "earliest", **options}
    return spark.readStream.format("sparklog").options(**given).load(log_dir)


def into_copy(df: DataFrame, folder: Path, **options: Any) -> DataStreamWriter:
    writer = df.select("key", "value", "partition").writeStream.format("sparklog")
    given = {"topic": "copy", "checkpointLocation": str(folder / "checkpoint"), **options}
    return writer.options(**given)


def finished(writer: DataStreamWriter, log_dir: str) -> StreamingQuery:
    """Run to the end of what is there."""
    query = writer.trigger(availableNow=True).start(log_dir)
    query.awaitTermination()
    return query


def batch_sizes(query: StreamingQuery) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress]


class TestTriggers:
    def test_available_now_takes_all_in_limited_batches(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        query = finished(into_copy(stream(spark, log, maxOffsetsPerTrigger=16), tmp_path), log)

        assert [size for size in batch_sizes(query) if size] == [16, 16, 8]
        assert values(log, "copy") == values(log, "t")

    def test_once_takes_all_at_once(self, spark: SparkSession, log: str, tmp_path: Path) -> None:
        writer = into_copy(stream(spark, log, maxOffsetsPerTrigger=16), tmp_path)
        query = writer.trigger(once=True).start(log)
        query.awaitTermination()

        assert [size for size in batch_sizes(query) if size] == [40]

    def test_processing_time_follows_the_log(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        writer = into_copy(stream(spark, log, startingOffsets="latest"), tmp_path)
        query = writer.trigger(processingTime="50 milliseconds").start(log)
        query.processAllAvailable()
        append(log, 2, ["new"])
        query.processAllAvailable()
        AdminClient(log).create_partitions({"t": 5})
        append(log, 4, ["newer"])
        query.processAllAvailable()
        query.stop()

        assert all_values(log, "copy") == ["new", "newer"]

    def test_processing_time_goes_on_with_topics_that_are_made_again(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        """The sink's topic, and the source's, whose loss is no error here."""
        writer = into_copy(stream(spark, log, failOnDataLoss=False), tmp_path)
        query = writer.trigger(processingTime="50 milliseconds").start(log)
        query.processAllAvailable()
        for name in ("copy", "t"):
            AdminClient(log).delete_topics([name])
            new_topic(log, name)
        append(log, 0, ["new"])
        query.processAllAvailable()
        query.stop()

        assert values(log, "copy") == {0: ["new"]}


class TestRestart:
    def test_goes_on_from_the_checkpoint(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        for extra in ([], ["a"], [], ["b", "c"]):
            if extra:
                append(log, 0, extra)
            finished(into_copy(stream(spark, log), tmp_path), log)

            assert values(log, "copy") == values(log, "t")

    def test_of_a_stream_from_the_end_misses_nothing(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        """The connector keeps its initial offset in the checkpoint; Spark keeps none for others."""
        df = stream(spark, log, startingOffsets="latest")
        finished(into_copy(df, tmp_path), log)
        append(log, 1, ["between"])
        finished(into_copy(df, tmp_path), log)

        assert all_values(log, "copy") == ["between"]

    def test_with_a_checkpoint_of_another_topic_is_refused(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        finished(into_copy(stream(spark, log), tmp_path), log)
        other = stream(spark, log, subscribe=new_topic(log, "other") and "other")

        with pytest.raises(StreamingQueryException, match="'t'.* is not selected any more"):
            finished(into_copy(other, tmp_path), log)


class TestSink:
    def test_commits_a_batch_once_however_often_it_runs(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        """Spark forgets that the batch was done, as after a crash before its commit log."""
        finished(into_copy(stream(spark, log), tmp_path), log)
        commits = tmp_path / "checkpoint" / "commits"
        for path in [*commits.iterdir()]:
            path.unlink()
        finished(into_copy(stream(spark, log), tmp_path), log)

        assert values(log, "copy") == values(log, "t")

    def test_writes_to_the_topics_of_the_column(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        for name in ("even", "odd"):
            new_topic(log, name)
        df = stream(spark, log).selectExpr(
            "value", "if(cast(cast(value as string) as int) % 2 = 0, 'even', 'odd') topic"
        )
        where = str(tmp_path / "checkpoint")
        finished(df.writeStream.format("sparklog").option("checkpointLocation", where), log)

        assert (len(all_values(log, "even")), len(all_values(log, "odd"))) == (20, 20)

    def test_of_foreach_batch_is_once_by_its_transaction(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        def twice(batch: DataFrame, number: int) -> None:
            for _ in range(2):
                produce(batch.select("value"), log, "copy", txnAppId="app", txnVersion=number)

        writer = stream(spark, log).writeStream.foreachBatch(twice)
        finished(writer.option("checkpointLocation", str(tmp_path / "checkpoint")), log)

        assert all_values(log, "copy") == all_values(log, "t")

    def test_takes_a_stateful_query(self, spark: SparkSession, log: str, tmp_path: Path) -> None:
        append(log, 0, range(0, 40, 3))
        once = stream(spark, log).dropDuplicates(["value"])
        finished(into_copy(once, tmp_path), log)
        append(log, 1, range(50))
        finished(into_copy(once, tmp_path), log)

        assert sorted(map(int, all_values(log, "copy"))) == list(range(50))


class TestProgress:
    def test_shows_where_the_stream_and_the_log_end(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        query = finished(into_copy(stream(spark, log, maxOffsetsPerTrigger=4), tmp_path), log)
        source = query.recentProgress[1]["sources"][0]

        assert json.loads(source["endOffset"])["t"] == {str(number): 2 for number in range(4)}
        assert json.loads(source["latestOffset"]) == {"t": {str(number): 10 for number in range(4)}}


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"endingOffsets": "latest"}, "option endingOffsets is not allowed in a stream"),
            ({"endingTimestamp": "5"}, "option endingTimestamp is not allowed in a stream"),
            ({"minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 8}, "=9 is above maxOffsets"),
            ({"maxTriggerDelay": "soon"}, "maxTriggerDelay='soon' is not allowed: it takes a time"),
            ({"assign": '{"t": [0]}'}, "give one of the options assign, subscribe and"),
            ({"startingOffsets": '{"t": {"0": 11}}'}, r"t-0: offsets \[11, 11\) are not all in"),
            ({"subscribe": "nowhere"}, "unknown topic 'nowhere'"),
        ],
    )
    def test_of_a_source_name_the_option(
        self, spark: SparkSession, log: str, tmp_path: Path, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(Exception, match=message) as raised:
            finished(into_copy(stream(spark, log, **options), tmp_path), log)
        assert "UnboundLocalError" not in str(raised.value)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"topic": "nowhere"}, "unknown topic 'nowhere'"),
            ({"txnAppId": "a", "txnVersion": 1}, "option txnAppId is not allowed in a stream"),
        ],
    )
    def test_of_a_sink_name_the_option(
        self, spark: SparkSession, log: str, tmp_path: Path, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(Exception, match=message):
            finished(into_copy(stream(spark, log), tmp_path, **options), log)

    def test_of_a_topic_created_again_stop_the_stream(
        self, spark: SparkSession, log: str, tmp_path: Path
    ) -> None:
        finished(into_copy(stream(spark, log), tmp_path), log)
        AdminClient(log).delete_topics(["t"])
        new_topic(log, "t")
        produce(numbers(spark, 100), log, "t")

        with pytest.raises(StreamingQueryException, match="was deleted and created again"):
            finished(into_copy(stream(spark, log), tmp_path), log)
