"""consume(): the log as a DataFrame, with its columns and its order, however it is used."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from sparklog.admin import AdminClient
from sparklog.errors import (
    InvalidOptionError,
    OffsetOutOfRangeError,
    SparklogWarning,
    UnknownTopicError,
)
from sparklog.spark import consume, produce, register
from tests.logs import log_files, new_topic
from tests.spark.frames import numbers, one, own_files, parent_of_worker

pytestmark = pytest.mark.spark

T0 = 1_700_000_000_000
SECOND = 1000


@pytest.fixture(scope="module")
def log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic `t`: 4 partitions of 25 records, a record a second; `other`: 1 of 10; `empty`: 2."""
    log_dir = new_topic(tmp_path_factory.mktemp("consume") / "log")
    new_topic(log_dir, "other", 1)
    new_topic(log_dir, "empty", 2)
    place, at = "cast(id % 4 as int) partition", f"{T0} + id div 4 * {SECOND} timestamp"
    small = {"segment.bytes": 700, "batch.size": 200}
    produce(numbers(spark, 100, place, at, "cast(id as string) key"), log_dir, "t", **small)
    produce(numbers(spark, 10), log_dir, "other")
    return log_dir


def offsets(df: DataFrame) -> dict[str, list[int]]:
    """The offsets by topic-partition, in the order of the rows."""
    found: dict[str, list[int]] = {}
    for row in df.select("topic", "partition", "offset").collect():
        found.setdefault(f"{row.topic}-{row.partition}", []).append(row.offset)
    return found


def spans(df: DataFrame) -> dict[str, tuple[int, int]]:
    """[first, last] offset by topic-partition, which must have every one between, in order."""
    found = offsets(df)
    for numbers_read in found.values():
        assert numbers_read == list(range(numbers_read[0], numbers_read[-1] + 1))
    return {key: (read[0], read[-1] + 1) for key, read in found.items()}


def all_of_t(start: int = 0, end: int = 25) -> dict[str, tuple[int, int]]:
    return {f"t-{partition}": (start, end) for partition in range(4)}


class TestColumns:
    def test_are_the_kafka_sources(self, spark: SparkSession, log: str) -> None:
        df = consume(spark, log, subscribe="t")

        assert df.schema.simpleString() == (
            "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
            "timestamp:timestamp,timestampType:int>"
        )
        assert all(field.nullable for field in df.schema)

    def test_hold_what_was_produced(self, spark: SparkSession, log: str) -> None:
        df = consume(spark, log, subscribe="t").where("partition = 3 and offset = 7")
        row = df.selectExpr("*", "unix_millis(timestamp) ms").first()

        assert row is not None
        assert row.asDict() | {"timestamp": None} == {
            "key": bytearray(b"31"),
            "value": bytearray(b"31"),
            "topic": "t",
            "partition": 3,
            "offset": 7,
            "timestamp": None,
            "timestampType": 0,
            "ms": T0 + 7 * SECOND,
        }

    def test_end_with_the_headers_when_asked_for(self, spark: SparkSession, log_dir: str) -> None:
        pairs = "array(struct('a' as key, X'01' as value), struct('a' as key, null as value))"
        kind = "array<struct<key:string,value:binary>>"
        df = numbers(spark, 2, f"cast(if(id = 0, {pairs}, null) as {kind}) headers", tasks=1)
        produce(df, log_dir, "t")
        read = consume(spark, log_dir, subscribe="t", includeHeaders="true")

        assert read.schema["headers"].dataType.simpleString() == kind
        assert [row.headers for row in read.orderBy("value").collect()] == [
            [("a", bytearray(b"\x01")), ("a", None)],
            None,
        ]

    def test_may_be_produced_again(self, spark: SparkSession, log: str, log_dir: str) -> None:
        read = consume(spark, log, subscribe="t", includeHeaders=True)
        produce(read, log_dir)

        assert sorted(consume(spark, log_dir, subscribe="t").drop("offset").collect()) == sorted(
            read.drop("offset", "headers").collect()
        )


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"subscribe": "t, other"}, {**all_of_t(), "other-0": (0, 10)}),
            ({"subscribePattern": "^oth|pty$"}, {"other-0": (0, 10)}),
            ({"subscribe": "empty"}, {}),
            ({"assign": '{"t": [2]}', "startingOffsets": '{"t": {"2": 9}}'}, {"t-2": (9, 25)}),
            ({"subscribe": "t", "startingTimestamp": T0 + 20 * SECOND}, all_of_t(20)),
        ],
    )
    def test_bound_the_read(
        self,
        spark: SparkSession,
        log: str,
        options: dict[str, Any],
        expected: dict[str, tuple[int, int]],
    ) -> None:
        assert spans(consume(spark, log, **options)) == expected

    def test_that_are_wrong_are_our_errors(self, spark: SparkSession, log: str) -> None:
        with pytest.raises(InvalidOptionError, match="did you mean startingOffsets"):
            consume(spark, log, subscribe="t", startingOfsets="earliest")
        with pytest.raises(UnknownTopicError, match="unknown topic 'tt'"):
            consume(spark, log, subscribe="tt")
        with pytest.raises(OffsetOutOfRangeError, match="not all in the log"):
            consume(spark, log, subscribe="t", endingOffsets='{"t": {"0": 26}}')


class TestSplits:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, 4),
            ({"minPartitions": 8}, 8),
            ({"maxRecordsPerPartition": 10}, 12),
        ],
    )
    def test_read_the_same_records(
        self, spark: SparkSession, log: str, options: dict[str, Any], expected: int
    ) -> None:
        df = consume(spark, log, subscribe="t", **options)

        assert df.rdd.getNumPartitions() == expected
        assert spans(df) == all_of_t()


class TestDataFrame:
    def test_does_not_see_what_is_produced_later(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark, 10), log_dir, "t")
        df = consume(spark, log_dir, subscribe="t")
        produce(numbers(spark, 5), log_dir, "t")
        early = df.count()
        produce(numbers(spark, 5), log_dir, "t")

        assert (early, df.count()) == (10, 10)
        assert consume(spark, log_dir, subscribe="t").count() == 20

    def test_reads_the_same_however_it_is_used(self, spark: SparkSession, log: str) -> None:
        df = consume(spark, log, subscribe="t")
        late = df.where("offset >= 20")

        assert (late.count(), df.count(), late.union(df).count()) == (20, 100, 120)
        assert df.join(df.select("partition", "offset"), ["partition", "offset"]).count() == 100
        assert df.cache().count() == df.count() == 100
        assert df.unpersist().select("offset").limit(7).count() == 7

    def test_is_no_small_table_to_the_optimizer(self, spark: SparkSession, log: str) -> None:
        """A join would collect a log of any size in the driver, and send it to all executors."""
        df = consume(spark, log, subscribe="t", minPartitions=8)
        joined = df.join(spark.range(2_000_000).toDF("offset"), "offset")
        plan = joined._jdf.queryExecution().executedPlan().toString()

        assert ("SortMergeJoin" in plan, "Broadcast" in plan) == (True, False)
        assert (joined.count(), df.rdd.getNumPartitions()) == (100, 8)

    def test_may_be_read_by_name_too(self, spark: SparkSession, log: str) -> None:
        register(spark)
        read = spark.read.format("sparklog").option("subscribe", "t")
        df = read.option("STARTINGOFFSETS", '{"t": {"0": 20}}').load(log)

        assert spans(df) == {**all_of_t(), "t-0": (20, 25)}

    def test_may_have_options_about_brokers(self, spark: SparkSession, log: str) -> None:
        given = {"kafka.bootstrap.servers": "nowhere:9092", "subscribe": "t"}

        with pytest.warns(SparklogWarning, match="kafka.bootstrap.servers has no meaning"):
            df = consume(spark, log, **given)
        assert spans(df) == all_of_t()

    def test_runs_in_workers_that_have_everything_loaded(self, spark: SparkSession) -> None:
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(parent_of_worker, "command string").collect()

        assert row.command.split()[1:3] == ["-m", "sparklog.spark.daemon"]

    def test_may_be_a_view(self, spark: SparkSession, log: str) -> None:
        register(spark)
        options = f"path '{log}', subscribe 'other', endingOffsets '{{\"other\": {{\"0\": 5}}}}'"
        spark.sql(
            f"create or replace temporary view read_by_sql using sparklog options ({options})"
        )

        assert spark.sql("select count(*) from read_by_sql where offset > 1").first() == (3,)

    def test_read_by_name_says_what_is_wrong(self, spark: SparkSession, log: str) -> None:
        register(spark)

        with pytest.raises(AnalysisException, match="unknown option subscrib.*did you mean subscr"):
            spark.read.format("sparklog").option("subscrib", "t").load(log)
        with pytest.raises(AnalysisException, match="UnknownTopicError: unknown topic 'tt'"):
            spark.read.format("sparklog").option("subscribe", "tt").load(log).count()
        with pytest.raises(AnalysisException, match="SchemaError: the source has a fixed schema"):
            spark.read.format("sparklog").schema("key int").option("subscribe", "t").load(
                log
            ).count()
        with pytest.raises(AnalysisException, match="no log dir: give it to load"):
            spark.read.format("sparklog").option("subscribe", "t").load().count()


class TestDataLoss:
    @pytest.mark.parametrize("fails", ["true", "false"])
    def test_after_planning_is_an_error_or_skipped(
        self, spark: SparkSession, log_dir: str, fails: str
    ) -> None:
        produce(numbers(spark, 20, "0 partition"), log_dir, "t")
        df = consume(spark, log_dir, subscribe="t", failOnDataLoss=fails)
        AdminClient(log_dir).delete_records({("t", 0): 15})

        if fails == "false":
            assert spans(df) == {"t-0": (15, 20)}
        else:
            with pytest.raises(PythonException, match="OffsetOutOfRangeError: t-0: .*15, 20"):
                df.collect()

    def test_of_a_topic_made_again_is_an_error(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark, 20), log_dir, "t")
        df = consume(spark, log_dir, subscribe="t")
        AdminClient(log_dir).delete_topics(["t"])
        new_topic(log_dir)
        produce(numbers(spark, 20), log_dir, "t")

        with pytest.raises(PythonException, match="UnknownTopicError: topic 't' was deleted aft"):
            df.collect()


class TestDamage:
    @pytest.fixture
    def damaged(self, spark: SparkSession, log_dir: str) -> Path:
        """The only `.log`, of 1000 records in batches of 100 bytes, to be damaged."""
        own_files(log_dir)
        df = numbers(spark, 1000, "0 partition", tasks=1)
        produce(df, log_dir, "t", **{"batch.size": 200})
        (path,) = log_files(log_dir)
        return path

    def test_names_file_position_and_offset(
        self, spark: SparkSession, log_dir: str, damaged: Path
    ) -> None:
        data = bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        df = consume(spark, log_dir, subscribe="t")

        message = rf"CorruptRecordError: t-.*{damaged.name}, position \d+, offset \d+: the checksum"
        with pytest.raises(PythonException, match=message):
            df.collect()

    def test_of_a_missing_file_names_it(
        self, spark: SparkSession, log_dir: str, damaged: Path
    ) -> None:
        damaged.unlink()

        with pytest.raises(
            PythonException, match=f"MissingFileError: t-0, .* 0 on: .*{damaged.name}"
        ):
            consume(spark, log_dir, subscribe="t").collect()

    def test_of_an_index_costs_nothing_but_time(
        self, spark: SparkSession, log_dir: str, damaged: Path
    ) -> None:
        damaged.with_suffix(".index").write_bytes(b"\xff" * 16)
        read = consume(spark, log_dir, subscribe="t", startingOffsets='{"t": {"0": 990}}')

        assert spans(read) == {"t-0": (990, 1000)}


class TestAddress:
    def test_may_be_a_uri(self, spark: SparkSession, log: str) -> None:
        assert consume(spark, Path(log).as_uri(), subscribe="other").count() == 10

    def test_may_be_relative(
        self, spark: SparkSession, log: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Workers have another working directory than the driver, or get one later."""
        monkeypatch.chdir(Path(log).parent)

        assert consume(spark, Path(log).name, subscribe="other").count() == 10

    def test_may_be_a_path_with_blanks(self, spark: SparkSession, tmp_path: Path) -> None:
        log_dir = tmp_path / "my log ü"
        new_topic(log_dir)
        produce(one(spark), log_dir, "t")

        assert consume(spark, log_dir, subscribe="t").count() == 1
