"""The column offset: what a DataFrame says is where a record lies, or nothing is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparklog.errors import (
    InvalidOptionError,
    InvalidRecordError,
    SchemaError,
    UnexpectedAppendOffsetError,
)
from sparklog.model import OffsetRange, TopicPartition
from sparklog.spark import consume, produce
from tests.logs import append, log_files, new_topic, rows
from tests.spark.frames import numbers, one

pytestmark = pytest.mark.spark


def placed(spark: SparkSession, start: int, count: int, step: int = 1, tasks: int = 3) -> DataFrame:
    """`count` records a partition of two, from offset `start` on, each `step` further."""
    df = spark.range(0, 2 * count, 1, tasks)
    partition, offset = f"cast(id div {count} as int)", f"{start} + {step} * (id % {count})"
    return df.selectExpr(
        f"cast({offset} as string) value", f"{partition} partition", f"{offset} offset"
    )


def offsets(log_dir: str, partition: int = 0) -> list[int]:
    """The offsets of a partition, whose records say the same of themselves."""
    found = rows(log_dir).get(partition, [])
    assert [row.value for row in found] == [b"%d" % row.offset for row in found]
    return [row.offset for row in found]


def produced(df: DataFrame, log_dir: str, **options: Any) -> None:
    produce(df, log_dir, "t", **options)


def saved(df: DataFrame, log_dir: str, **options: Any) -> None:
    df.write.format("sparklog").options(topic="t", **options).mode("append").save(log_dir)


class TestOffset:
    @pytest.mark.parametrize("how", ["auto", "true"])
    def test_is_kept_over_all_tasks(self, spark: SparkSession, log_dir: str, how: str) -> None:
        first = produce(placed(spark, 0, 100), log_dir, "t", clustered=how)
        second = produce(placed(spark, 100, 50, tasks=5), log_dir, "t", clustered=how)

        assert offsets(log_dir, 0) == offsets(log_dir, 1) == list(range(150))
        assert first.ranges[TopicPartition("t", 1)] == OffsetRange(1, 0, 100)
        assert second.ranges[TopicPartition("t", 0)] == OffsetRange(0, 100, 150)

    def test_leaves_gaps_where_it_may(self, spark: SparkSession, log_dir: str) -> None:
        produce(placed(spark, 7, 30, step=3), log_dir, "t", allowOffsetGaps=True)
        saved(placed(spark, 1000, 2, step=10), log_dir, allowOffsetGaps="true")

        assert offsets(log_dir, 1) == [*range(7, 97, 3), 1000, 1010]

    def test_of_a_log_makes_its_copy(
        self, spark: SparkSession, log_dir: str, tmp_path: Path
    ) -> None:
        produce(placed(spark, 0, 20, step=2), log_dir, "t", allowOffsetGaps=True)
        copy = new_topic(tmp_path / "copy")
        whole = consume(spark, log_dir, subscribe="t", includeHeaders=True, minPartitions=9)
        produce(whole, copy, allowOffsetGaps=True)

        assert rows(copy) == rows(log_dir)

    def test_of_a_shuffled_frame_is_put_into_order(self, spark: SparkSession, log_dir: str) -> None:
        produce(placed(spark, 0, 100).repartition(3), log_dir, "t", clustered="true")

        assert offsets(log_dir) == list(range(100))

    def test_is_answered_again_for_its_transaction(self, spark: SparkSession, log_dir: str) -> None:
        write = {"txnAppId": "mirror", "txnVersion": 3}
        first = produce(placed(spark, 0, 10), log_dir, "t", **write)
        again = produce(placed(spark, 0, 10), log_dir, "t", **write)

        assert again.ranges == first.ranges
        assert again.replayed == {"t"}
        assert offsets(log_dir) == list(range(10))

    def test_is_for_foreach_batch_too(
        self, spark: SparkSession, log_dir: str, tmp_path: Path
    ) -> None:
        produce(placed(spark, 0, 20), log_dir, "t")
        copy = new_topic(tmp_path / "copy")

        def keep(df: DataFrame, number: int) -> None:
            produce(df, copy, txnAppId="mirror", txnVersion=number)

        source = spark.readStream.format("sparklog").options(
            subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=15
        )
        writer = source.load(log_dir).writeStream.foreachBatch(keep).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "ckpt")).start().awaitTermination()

        assert rows(copy) == rows(log_dir)


class TestRefusal:
    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ("5L + id", "t-0: a record has offset 5, expected is 3,"),
            ("2L + id", "t-0: a record has offset 2, expected is 3,"),
            ("3L + 2 * id", "t-0: a record has offset 5, expected is 4, .* allowOffsetGaps=true"),
            ("3L + id div 2", "t-0: a record has offset 3, expected is 4,"),
            ("12L - id", "t-0: a record has offset 11, expected is 13,"),
            ("if(id < 2, 3 + id, null)", r"t-0: a record has no offset \(null\), expected is 5,"),
        ],
    )
    @pytest.mark.parametrize(
        ("write", "error"), [(produced, UnexpectedAppendOffsetError), (saved, PySparkException)]
    )
    def test_names_partition_offset_and_what_is_expected(
        self,
        spark: SparkSession,
        log_dir: str,
        columns: str,
        message: str,
        write: Callable[[DataFrame, str], None],
        error: type[Exception],
    ) -> None:
        append(log_dir, 0, [0, 1, 2])
        df = numbers(spark, 10, "0 partition", f"{columns} offset", tasks=1)

        with pytest.raises(error, match=message):
            write(df, log_dir)
        assert offsets(log_dir) == [0, 1, 2]

    def test_of_interleaved_tasks(self, spark: SparkSession, log_dir: str) -> None:
        df = numbers(spark, 10, "0 partition", "if(id < 5, 2 * id, 2 * id - 9) offset")

        with pytest.raises(UnexpectedAppendOffsetError, match="offset 1, expected is 9,"):
            produce(df, log_dir, "t", allowOffsetGaps=True)
        assert rows(log_dir) == {}

    def test_of_a_write_that_came_between(self, spark: SparkSession, log_dir: str) -> None:
        df = placed(spark, 0, 10)
        append(log_dir, 1, ["theirs"])

        with pytest.raises(UnexpectedAppendOffsetError, match="t-1: .* offset 0, expected is 1,"):
            produce(df, log_dir, "t")
        assert {number: len(found) for number, found in rows(log_dir).items()} == {1: 1}

    def test_of_columns_that_do_not_fit(self, spark: SparkSession, log_dir: str) -> None:
        for columns, message in {
            ("id offset",): "column offset needs column partition",
            ("0 partition", "1 offset"): "column offset is int: it must be bigint",
        }.items():
            with pytest.raises(SchemaError, match=message):
                produce(one(spark, *columns), log_dir, "t")
        with pytest.raises(InvalidRecordError, match="that brings an offset has no partition"):
            produce(one(spark, "id offset", "cast(null as int) partition"), log_dir, "t")
        with pytest.raises(InvalidOptionError, match="allowOffsetGaps is about the column offset"):
            produce(one(spark), log_dir, "t", allowOffsetGaps=True)
        assert log_files(log_dir) == []
