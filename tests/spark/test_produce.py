"""produce(): rows of a DataFrame are records of the log, and the answer says where."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame, SparkSession

from sparklog.admin import AdminClient
from sparklog.errors import (
    InvalidOptionError,
    InvalidRecordError,
    InvalidTopicError,
    LogDirError,
    RecordTooLargeError,
    SparklogError,
    UnknownTopicError,
    UsageError,
)
from sparklog.model import OffsetRange, TopicPartition
from sparklog.spark import produce
from tests.logs import all_values, image, log_files, new_topic, rows, values
from tests.spark.frames import numbers, one, slow_but_for_the_first

pytestmark = pytest.mark.spark

HERE = "tests.spark.frames"


class TestAnswer:
    def test_is_what_can_be_read_back(self, spark: SparkSession, log_dir: str) -> None:
        first = produce(numbers(spark), log_dir, "t", partitioner="round-robin")
        second = produce(numbers(spark, 10), log_dir, "t", partitioner="round-robin")
        ends = {partition: found[-1].offset + 1 for partition, found in rows(log_dir).items()}

        assert first.ranges == {
            TopicPartition("t", p): OffsetRange(p, 0, 26 if p < 2 else 24) for p in range(4)
        }
        assert (first.count, second.count) == (100, 10)
        assert {key.partition: got.end for key, got in second.ranges.items()} == ends

    def test_has_the_rows_of_each_task_in_their_order(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        produce(numbers(spark, 1000, "0 partition", tasks=4), log_dir, "t")

        assert values(log_dir) == {0: [str(number) for number in range(1000)]}

    def test_leaves_no_accumulator_in_the_driver(self, spark: SparkSession, log_dir: str) -> None:
        before = set(_accumulatorRegistry)
        produce(numbers(spark, 1), log_dir, "t")

        assert set(_accumulatorRegistry) == before

    def test_is_empty_for_an_empty_dataframe(self, spark: SparkSession, log_dir: str) -> None:
        for empty in (
            numbers(spark).limit(0),
            numbers(spark).where("value < 0"),
            spark.createDataFrame([], "value string"),
            spark.createDataFrame(spark.sparkContext.emptyRDD(), "value string"),
        ):
            assert produce(empty, log_dir, "t").ranges == {}

        assert rows(log_dir) == {}
        assert log_files(log_dir) == []

    def test_names_only_the_partitions_that_got_records(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        assert produce(numbers(spark, 5, "2 partition"), log_dir, "t").ranges == {
            TopicPartition("t", 2): OffsetRange(2, 0, 5)
        }


class TestTopic:
    def test_may_come_from_a_column(self, spark: SparkSession, log_dir: str) -> None:
        new_topic(log_dir, "odd")
        new_topic(log_dir, "idle")
        df = numbers(spark, 100, "if(id % 2 = 0, 't', 'odd') topic")

        result = produce(df, log_dir)

        assert {key.topic for key in result.ranges} == {"t", "odd"}
        assert all_values(log_dir, "t") == sorted(map(str, range(0, 100, 2)))
        assert all_values(log_dir, "odd") == sorted(map(str, range(1, 100, 2)))

    def test_of_the_option_beats_the_column(self, spark: SparkSession, log_dir: str) -> None:
        df = one(spark, "'nowhere' topic")
        produce(df, log_dir, "t")
        produce(df, log_dir, topic="t")

        assert all_values(log_dir) == ["v", "v"]

    @pytest.mark.parametrize("name", ["tt", "T", "__x", ""])
    def test_must_exist(self, spark: SparkSession, log_dir: str, name: str) -> None:
        with pytest.raises(UnknownTopicError, match=f"unknown topic '{name}'.*on first use"):
            produce(one(spark), log_dir, name)

    def test_is_not_internal(self, spark: SparkSession, log_dir: str) -> None:
        AdminClient(log_dir).alter_consumer_group_offsets("g", {TopicPartition("t", 0): 0})
        name = "__consumer_offsets"
        with pytest.raises(InvalidTopicError, match=f"topic '{name}' is internal"):
            produce(one(spark), log_dir, name)
        with pytest.raises(InvalidTopicError, match=f"topic '{name}' is internal"):
            produce(numbers(spark, 1, f"'{name}' topic"), log_dir)

    @pytest.mark.parametrize("how", ["true", "false"])
    def test_of_a_column_must_exist(self, spark: SparkSession, log_dir: str, how: str) -> None:
        df = numbers(spark, 10, "if(id = 7, 'tt', 't') topic")

        with pytest.raises(UnknownTopicError, match="unknown topic 'tt' in column topic"):
            produce(df, log_dir, clustered=how)
        assert rows(log_dir) == {}

    @pytest.mark.parametrize("how", ["true", "false"])
    def test_may_not_be_null(self, spark: SparkSession, log_dir: str, how: str) -> None:
        df = numbers(spark, 10, "if(id = 7, null, 't') topic")

        with pytest.raises(InvalidRecordError, match="null topic in row"):
            produce(df, log_dir, clustered=how)
        assert rows(log_dir) == {}

    def test_must_lie_in_a_log_dir(self, spark: SparkSession, tmp_path: object) -> None:
        with pytest.raises(LogDirError, match="is not a log dir"):
            produce(one(spark), str(tmp_path), "t")


class TestThreads:
    def test_may_produce_at_once(self, spark: SparkSession, log_dir: str) -> None:
        def write(number: int) -> None:
            produce(numbers(spark, 50, "0 partition"), log_dir, "t", batch_size=100 + number)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(write, range(6)))

        assert [row.offset for row in rows(log_dir)[0]] == list(range(300))
        assert all_values(log_dir) == sorted(6 * [str(number) for number in range(50)])


class TestPartition:
    def test_of_a_row_beats_the_key(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark, 8, "cast(id % 4 as int) partition", "'k' key"), log_dir, "t")

        assert values(log_dir) == {p: [str(p), str(p + 4)] for p in range(4)}

    def test_that_is_null_is_the_partitioners(self, spark: SparkSession, log_dir: str) -> None:
        df = numbers(spark, 100, "if(id = 0, 3, null) partition", "'k' key")
        produce(df, log_dir, "t")
        found = values(log_dir)

        assert found[3] == ["0"]
        assert sorted(map(len, found.values())) == [1, 99]

    @pytest.mark.parametrize("partition", [-1, 4, 2**31 - 1])
    @pytest.mark.parametrize("how", ["true", "false"])
    def test_must_be_one_of_the_topic(
        self, spark: SparkSession, log_dir: str, partition: int, how: str
    ) -> None:
        df = numbers(spark, 10, f"if(id = 9, {partition}, 0) partition", tasks=1)

        with pytest.raises(UnknownTopicError, match=f"row 9 names partition {partition}; .*0 to 3"):
            produce(df, log_dir, "t", clustered=how)
        assert rows(log_dir) == {}

    def test_is_the_same_for_the_same_key_in_every_task(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        produce(numbers(spark, 1000, "cast(id % 10 as string) key", tasks=5), log_dir, "t")
        places: dict[bytes | None, set[int]] = {}
        for partition, found in rows(log_dir).items():
            for row in found:
                places.setdefault(row.key, set()).add(partition)

        assert len(places) == 10
        assert {len(partitions) for partitions in places.values()} == {1}

    def test_may_be_chosen_by_a_function(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark), log_dir, "t", partitioner=f"{HERE}:last_partition")

        assert list(values(log_dir)) == [3]

    def test_may_be_chosen_by_the_topics_partitioner(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        new_topic(log_dir, "own", config={"sparklog.partitioner": "round-robin"})
        produce(numbers(spark, 8, "'k' key", tasks=1), log_dir, "own")

        assert values(log_dir, "own") == {p: [str(p), str(p + 4)] for p in range(4)}


class TestRefusal:
    """Of what rows hold: the error is the library's, and nothing of the produce can be seen."""

    CASES: ClassVar[dict[str, tuple[list[str], type[SparklogError], str]]] = {
        "too large": (
            ["if(id = 50, repeat('x', 1048588), 'x') value"],
            RecordTooLargeError,
            "needs a batch of 10486.. bytes, max.message.bytes allows 1048588",
        ),
        "header without key": (
            ["'v' value", "array(struct(cast(null as string) as key, X'00' as value)) headers"],
            InvalidRecordError,
            "row 0 has a header without a key",
        ),
        "null header": (
            ["'v' value", "array(struct('a' as key, X'00' as value), null) headers"],
            InvalidRecordError,
            "row 0 has a header without a key",
        ),
    }

    @pytest.mark.parametrize("how", ["true", "false"])
    @pytest.mark.parametrize("case", CASES)
    def test_names_row_and_limit(
        self, spark: SparkSession, log_dir: str, case: str, how: str
    ) -> None:
        columns, error, message = self.CASES[case]
        df = spark.range(0, 100, 1, 2).selectExpr(*columns)
        produce(one(spark), log_dir, "t")

        with pytest.raises(error, match=message):
            produce(df, log_dir, "t", clustered=how)
        assert all_values(log_dir) == ["v"]

    def test_of_a_null_key_on_a_compacted_topic(self, spark: SparkSession, log_dir: str) -> None:
        new_topic(log_dir, "compacted", config={"cleanup.policy": "compact"})
        df = numbers(spark, 10, "if(id = 3, null, 'k') key", tasks=1)

        with pytest.raises(InvalidRecordError, match="'compacted' is compacted.*row 3 has none"):
            produce(df, log_dir, "compacted")
        assert rows(log_dir, "compacted") == {}
        assert produce(df.na.fill("k"), log_dir, "compacted").count == 10

    def test_leaves_only_files_that_nothing_refers_to(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        df = numbers(spark, 300_000, "if(id = 299999, 77, 0) partition", tasks=1)
        before = image(log_dir).version

        with pytest.raises(UnknownTopicError):  # in the last of the task's three batches
            produce(df, log_dir, "t", **{"segment.bytes": 500_000})
        assert log_files(log_dir) != []
        assert image(log_dir).version == before

    def test_does_not_wait_for_the_other_tasks(self, spark: SparkSession, log_dir: str) -> None:
        df = numbers(spark, 100, "if(id = 0, 77, 0) partition", tasks=100)
        slow = df.mapInArrow(slow_but_for_the_first, df.schema)
        started = time.monotonic()

        with pytest.raises(UnknownTopicError, match="row 0 names partition 77"):
            produce(slow, log_dir, "t")
        assert time.monotonic() - started < 30
        assert produce(numbers(spark), log_dir, "t").count == 100

    def test_of_a_partitioner_says_what_went_wrong(self, spark: SparkSession, log_dir: str) -> None:
        for name, message in {
            f"{HERE}:raising": "raised KeyError: 'no such customer'",
            f"{HERE}:nothing": "has no attribute 'nothing'",
            "no.such.module:f": "No module named 'no'",
            f"{HERE}:HERE": "cannot be imported",
        }.items():
            with pytest.raises(InvalidOptionError, match=message):
                produce(one(spark), log_dir, "t", partitioner=name)


class TestStorage:
    def test_that_fails_is_tried_again_by_spark(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark), log_dir, "t", partitioner=f"{HERE}:failing_once")

        assert len(values(log_dir)[0]) == 100

    def test_that_keeps_failing_is_the_error(self, spark: SparkSession, log_dir: str) -> None:
        with pytest.raises(SparklogError, match="cannot write: attempt 1"):
            produce(numbers(spark), log_dir, "t", partitioner=f"{HERE}:failing_always")
        assert rows(log_dir) == {}


class TestDataFrame:
    def test_may_be_of_any_kind(self, spark: SparkSession, log_dir: str, tmp_path: Path) -> None:
        base = numbers(spark, 20)
        base.write.parquet(f"{tmp_path}/source")
        kinds: dict[str, Callable[[], DataFrame]] = {
            "table": lambda: spark.read.parquet(f"{tmp_path}/source"),
            "union": lambda: base.limit(10).union(base.where("value > 5").limit(10)),
            "cached": lambda: base.repartition(3).cache(),
            "aggregated": lambda: base.groupBy("value").count(),
            "joined": lambda: base.join(base.repartition(3), "value"),
            "sorted": lambda: base.orderBy("value"),
        }
        for name, frame in kinds.items():
            new_topic(log_dir, name)
            df = frame()

            assert produce(df, log_dir, name).count == df.count(), name

    def test_runs_its_shuffles_once(self, spark: SparkSession, log_dir: str) -> None:
        counter = spark.sparkContext.accumulator(0)

        def counted(batches: object) -> object:
            for batch in batches:  # type: ignore[attr-defined] # an iterator of Arrow batches
                counter.add(batch.num_rows)
                yield batch

        shuffled = numbers(spark, 100).mapInArrow(counted, "value string").repartition("value")  # type: ignore[arg-type] # as above
        produce(shuffled, log_dir, "t")

        assert counter.value == 100

    def test_that_fails_fails_as_everywhere_in_spark(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        with pytest.raises(Exception, match="a row is bad"):
            produce(
                one(spark, value="raise_error('a row is bad')").selectExpr(
                    "cast(value as string) value"
                ),
                log_dir,
                "t",
            )
        assert rows(log_dir) == {}

    def test_may_not_be_a_stream(self, spark: SparkSession, log_dir: str) -> None:
        stream = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")

        with pytest.raises(UsageError, match="foreachBatch"):
            produce(stream, log_dir, "t")

    def test_may_be_a_streams_batch(
        self, spark: SparkSession, log_dir: str, tmp_path: Path
    ) -> None:
        numbers(spark).write.text(f"{tmp_path}/source")

        def write(batch: DataFrame, number: int) -> None:
            for _ in range(2):
                produce(batch, log_dir, "t", txnAppId="query", txnVersion=number)

        stream = spark.readStream.text(f"{tmp_path}/source").writeStream.foreachBatch(write)
        query = stream.trigger(availableNow=True).option("checkpointLocation", f"{tmp_path}/c")
        query.start().awaitTermination()

        assert all_values(log_dir) == sorted(map(str, range(100)))

    def test_may_not_be_of_spark_connect(self, log_dir: str) -> None:
        remote = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()

        with pytest.raises(UsageError, match="Spark Connect has none: write by df.write"):
            produce(remote, log_dir, "t")
