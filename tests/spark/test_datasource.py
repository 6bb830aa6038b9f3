"""format("sparklog") in batch: written, read, and refused with one clear error."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparklog.admin import AdminClient
from sparklog.metadata.catalog import topic_directory
from sparklog.spark import produce
from tests.logs import all_values, catalog, log_files, new_topic, rows, values
from tests.spark.frames import failing_task, numbers, own_files, two_topics

pytestmark = pytest.mark.spark


def read(spark: SparkSession, log_dir: str, **options: Any) -> DataFrame:
    return spark.read.format("sparklog").options(**{"subscribe": "t", **options}).load(log_dir)


def write(df: DataFrame, log_dir: str, **options: Any) -> None:
    df.write.format("sparklog").options(**{"topic": "t", **options}).mode("append").save(log_dir)


def offsets(df: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in df.select("partition", "offset").collect())


class TestWrite:
    def test_puts_every_row_into_the_log(self, spark: SparkSession, log_dir: str) -> None:
        write(numbers(spark, 100, "value key"), log_dir)
        write(numbers(spark, 50, "value key"), log_dir)
        once, again = map(str, range(100)), map(str, range(50))

        assert all_values(log_dir) == sorted([*once, *again])

    def test_takes_the_kafka_sinks_columns_and_timestamps(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        time = "timestamp_millis(1700000000000 + id) timestamp"
        headers = "array(named_struct('key', 'h', 'value', cast('x' as binary))) headers"
        extra = ["id offset", "'ignored' more"]
        df = numbers(spark, 3, "'k' key", "2 partition", time, headers, *extra, tasks=1)
        write(df, log_dir)
        (found,) = rows(log_dir).values()

        assert [(row.offset, row.key, row.value) for row in found] == [
            (number, b"k", str(number).encode()) for number in range(3)
        ]
        assert [row.timestamp for row in found] == [1700000000000 + ms for ms in range(3)]
        assert found[0].headers == [("h", b"x")]

    def test_goes_to_the_topics_of_the_column(self, spark: SparkSession, log_dir: str) -> None:
        for name in ("even", "odd"):
            new_topic(log_dir, name)
        df = two_topics(spark).write.format("sparklog").mode("append")
        df.save(log_dir)

        assert all_values(log_dir, "odd") == sorted(str(number) for number in range(1, 100, 2))
        assert len(all_values(log_dir, "even")) == 50

    def test_takes_the_options_of_a_produce(self, spark: SparkSession, log_dir: str) -> None:
        options = {"partitioner": "round-robin", "kafka.compression.type": "zstd"}
        write(numbers(spark, 40, tasks=1), log_dir, **options)

        assert {len(found) for found in values(log_dir).values()} == {10}

    def test_happens_once_with_a_transaction(self, spark: SparkSession, log_dir: str) -> None:
        for _ in range(2):
            write(numbers(spark, 10), log_dir, txnAppId="app", txnVersion=1)
        files = len(log_files(log_dir))
        write(numbers(spark, 10), log_dir, txnAppId="app", txnVersion=2)

        assert len(all_values(log_dir)) == 20
        assert files == len(log_files(log_dir)) / 2

    def test_of_nothing_is_nothing(self, spark: SparkSession, log_dir: str) -> None:
        write(numbers(spark, 0), log_dir)

        assert rows(log_dir) == {}

    @pytest.mark.parametrize("large", ["true", "false"])
    def test_takes_large_arrow_types(self, spark: SparkSession, log_dir: str, large: str) -> None:
        name = "spark.sql.execution.arrow.useLargeVarTypes"
        spark.conf.set(name, large)
        try:
            write(numbers(spark, 10, "cast(value as binary) key"), log_dir)
        finally:
            spark.conf.unset(name)

        assert len(all_values(log_dir)) == 10

    def test_that_fails_leaves_nothing_visible(self, spark: SparkSession, log_dir: str) -> None:
        df = numbers(spark, 10_000, tasks=4).mapInArrow(failing_task, "value string")

        with pytest.raises(PySparkException, match="no such customer"):
            write(df, log_dir)
        assert rows(log_dir) == {}

    def test_whose_task_is_tried_again_doubles_nothing(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        """The first try has written its files when it fails."""
        write(numbers(spark, 100), log_dir, partitioner="tests.spark.frames:failing_once")

        assert len(all_values(log_dir)) == 100


class TestRead:
    @pytest.fixture
    def log(self, spark: SparkSession, log_dir: str) -> str:
        """40 records, 10 in each partition."""
        own_files(log_dir)
        produce(numbers(spark, 40, "cast(id % 4 as int) partition", tasks=1), log_dir, "t")
        return log_dir

    def test_has_the_kafka_sources_columns(self, spark: SparkSession, log: str) -> None:
        assert read(spark, log).columns == [
            *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
        ]
        assert read(spark, log, includeHeaders="true").columns[-1] == "headers"

    def test_may_have_some_columns_only(self, spark: SparkSession, log: str) -> None:
        df = read(spark, log, columns="offset,topic")

        assert df.schema.simpleString() == "struct<offset:bigint,topic:string>"
        assert df.selectExpr("sum(offset)").first() == (180,)

    def test_takes_the_connectors_options(self, spark: SparkSession, log: str) -> None:
        options = {"startingOffsets": '{"t": {"0": 7, "3": -2}}', "endingOffsets": '{"t":{"3":2}}'}

        assert offsets(read(spark, log, **options)) == [
            *((0, offset) for offset in range(7, 10)),
            *((1, offset) for offset in range(10)),
            *((2, offset) for offset in range(10)),
            *((3, offset) for offset in range(2)),
        ]
        assert read(spark, log, minPartitions=8).rdd.getNumPartitions() == 8

    def test_is_right_however_a_frame_is_used(self, spark: SparkSession, log: str) -> None:
        df = read(spark, log)
        late = df.where("offset > 7")

        assert late.count() == 8
        assert df.count() == 40
        assert late.union(df.where("offset > 8")).count() == 12
        assert df.union(late).count() == 48
        assert df.join(df.withColumnRenamed("value", "v2"), ["partition", "offset"]).count() == 40
        cached = df.cache()
        assert (cached.count(), cached.where("partition = 2").count()) == (40, 10)
        cached.unpersist()

    def test_of_a_frame_planned_before_its_records_went_says_so(
        self, spark: SparkSession, log: str
    ) -> None:
        df = read(spark, log)
        assert df.count() == 40
        AdminClient(log).delete_records({("t", 0): 5})
        assert df.count() == 40  # the files are there until vacuum
        for path in log_files(log):
            if path.parts[-2] == "t-0":
                path.unlink()

        with pytest.raises(PySparkException, match=r"t-0: offsets .* are not all in the log"):
            df.count()


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"startingOffset": "earliest"},
                "unknown option startingoffset; did you mean starting",
            ),
            ({"assign": '{"t":[0]}'}, "give one of the options assign, subscribe and"),
            ({"minPartitions": 0}, "minPartitions='0' is not allowed: it takes an integer from 1"),
            ({"startingOffsets": "latest"}, "option startingOffsets: latest .-1. is not allowed"),
            ({"endingOffsets": "earliest"}, "option endingOffsets: earliest .-2. is not allowed"),
            ({"startingOffsets": '{"u": {"0": 1}}'}, "offsets are given for u-0, which the read"),
            ({"startingOffsets": '{"t": {"0": 5}}'}, r"t-0: offsets \[5, 0\)|starting offset 5"),
            ({"subscribe": "flihgts"}, "unknown topic 'flihgts'"),
            ({"columns": "ofset"}, "columns='ofset' is not allowed"),
            ({"failOnDataLoss": "yes"}, "failOnDataLoss='yes' is not allowed: it takes true or"),
            ({"kafka.auto.offset.reset": "latest"}, "not supported: use startingOffsets"),
        ],
    )
    def test_of_a_read_name_the_option(
        self, spark: SparkSession, log_dir: str, options: dict[str, str], message: str
    ) -> None:
        with pytest.raises(AnalysisException, match=message):
            read(spark, log_dir, **options).count()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"topik": "t"}, "unknown option topik; did you mean topic"),
            ({"topic": "u"}, "unknown topic 'u'"),
            ({"compression.type": "brotli"}, "compression.type='brotli' is not allowed"),
            ({"txnAppId": "a"}, "txnAppId and txnVersion|txnVersion and txnAppId"),
            ({"clustered": "true"}, "clustered=true is for sparklog.spark.produce"),
            ({"kafka.key.serializer": "x"}, "not supported: cast the column"),
        ],
    )
    def test_of_a_write_name_the_option(
        self, spark: SparkSession, log_dir: str, options: dict[str, str], message: str
    ) -> None:
        with pytest.raises(PySparkException, match=message):
            write(numbers(spark, 1), log_dir, **options)

    @pytest.mark.parametrize(
        ("column", "message"),
        [
            ("cast(id as string) valeu", "required column value not found; did you mean valeu"),
            ("id value", "column value is bigint: it must be string or binary"),
        ],
    )
    def test_of_a_column_name_it(
        self, spark: SparkSession, log_dir: str, column: str, message: str
    ) -> None:
        with pytest.raises(AnalysisException, match=message):
            write(spark.range(1).selectExpr(column), log_dir)

    def test_refuse_a_schema_a_missing_path_and_other_modes(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        with pytest.raises(AnalysisException, match="no log dir: give it to load"):
            spark.read.format("sparklog").option("subscribe", "t").load().count()
        with pytest.raises(AnalysisException, match="fixed schema"):
            spark.read.format("sparklog").schema("value string").load(log_dir).count()
        with pytest.raises(AnalysisException, match="mode overwrite is not allowed"):
            numbers(spark, 1).write.format("sparklog").mode("overwrite").save(log_dir)

    def test_of_a_row_reach_the_user(self, spark: SparkSession, log_dir: str) -> None:
        with pytest.raises(
            PySparkException, match="row 0 names partition 9; the topic has partitions 0 to 3"
        ):
            write(numbers(spark, 1, "9 partition"), log_dir)
        assert rows(log_dir) == {}

    def test_of_a_full_disk_reach_the_user(self, spark: SparkSession, log_dir: str) -> None:
        own_files(log_dir)
        topic = Path(log_dir) / topic_directory(catalog(log_dir).topic("t"))
        topic.mkdir()
        (topic / "t-0").write_text("a file where a directory must be")

        with pytest.raises(PySparkException, match="cannot create .*t-0"):
            write(numbers(spark, 1, "0 partition"), log_dir)
        assert values(log_dir) == {}


def test_is_found_by_its_name_alone(spark: SparkSession, log_dir: str) -> None:
    """Without `register`: the package `pyspark_sparklog` says it to Spark."""
    fresh = spark.newSession()

    assert fresh.read.format("sparklog").option("subscribe", "t").load(log_dir).count() == 0
    assert fresh.read.format("sparklog").option("subscribe", "t").load(log_dir).agg(
        f.count("*")
    ).first() == (0,)
