"""consume(history=…): the table of a topic and its log as one DataFrame."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sparklog.admin import AdminClient
from sparklog.errors import MissingFileError, OffsetOutOfRangeError, SparklogWarning, UsageError
from sparklog.maintenance.build_table import build_table
from sparklog.spark import consume, create_table, stream_history
from sparklog.storage.local import LocalFiles
from sparklog.table.marks import Mark
from tests.erasing import erased
from tests.logs import append, new_topic
from tests.maintenance import outcome_of
from tests.restoring import restored_behind_its_table
from tests.tables import build, marks_of, table_path, topic_with_table

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000

Read = Callable[..., DataFrame]


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic of three partitions: five records of each in the table, five behind it."""
    log_dir = topic_with_table(tmp_path / "log", 3)
    fill(log_dir, 0)
    outcome_of(build_table, log_dir, rebuild=False)
    fill(log_dir, 5)
    return log_dir


def fill(log_dir: str, first: int) -> None:
    for partition in range(3):
        numbers = range(first, first + 5)
        append(
            log_dir,
            partition,
            [f"value {number}" if number % 3 else None for number in numbers],
            keys=[f"key {partition}" for _ in numbers],
            timestamps=[number * HOUR_MS for number in numbers],
        )


@pytest.fixture
def read(spark: SparkSession, log_dir: str) -> Read:
    def consumed(history: str, **options: Any) -> DataFrame:
        given = {"subscribe": "t", **options}
        return consume(spark, log_dir, history=history, **given)

    return consumed


def rows(df: DataFrame) -> list[Any]:
    return sorted(map(str, df.collect()))


def plan_of(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


class TestAuto:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"includeHeaders": "true"},
            {"columns": "offset,value"},
            {"startingOffsets": '{"t": {"0": 2, "1": 7}}', "endingOffsets": '{"t": {"0": 4}}'},
            {"startingTimestamp": 3 * HOUR_MS, "endingTimestamp": 7 * HOUR_MS},
            {"subscribe": None, "assign": '{"t": [1]}'},
            {"versionAsOf": 4},
            {"isolation.level": "read_committed"},
            {"minPartitions": 8},
        ],
    )
    def test_has_the_rows_and_columns_of_the_log(self, read: Read, options: Any) -> None:
        auto, log = read("auto", **options), read("log", **options)

        assert auto.schema == log.schema
        assert rows(auto) == rows(log)

    def test_reads_the_table_as_far_as_it_goes(self, read: Read) -> None:
        plan = plan_of(read("auto"))

        assert "FileScan parquet" in plan
        assert "MapInArrow" in plan

    def test_reads_small_ranges_of_the_log_in_one_task(self, read: Read) -> None:
        auto, log = read("auto"), read("log")

        assert (auto.rdd.getNumPartitions(), log.rdd.getNumPartitions()) == (1 + 1, 3)

    @pytest.mark.parametrize(
        ("condition", "pushed"),
        [
            ("partition = 1", "EqualTo(partition,1)"),
            ("offset > 2", "GreaterThan(offset,2)"),
            ("timestamp < '1970-01-01'", "LessThan(timestamp,"),
        ],
    )
    def test_hands_filters_to_parquet(self, read: Read, condition: str, pushed: str) -> None:
        filtered = read("auto").where(condition)

        assert pushed in plan_of(filtered).partition("PushedFilters: [")[2].partition("]")[0]

    @pytest.mark.parametrize(("files_max", "index"), [(0, "DeltaFileIndex"), (1, "InMemoryFile")])
    def test_lets_delta_find_the_files_of_a_table_that_has_many(
        self, read: Read, monkeypatch: pytest.MonkeyPatch, files_max: int, index: str
    ) -> None:
        monkeypatch.setattr("sparklog.spark.lake.table_part.FILES_MAX", files_max)
        auto = read("auto")

        assert index in plan_of(auto)
        assert rows(auto) == rows(read("log"))

    def test_is_in_order_where_that_is_asked_for(self, read: Read) -> None:
        found = read("auto", ordered="true").collect()

        for partition in range(3):
            assert [row.offset for row in found if row.partition == partition] == list(range(10))

    @pytest.mark.parametrize("columns", ["value", "value,partition"])
    def test_is_in_order_whatever_columns_are_read(self, read: Read, columns: str) -> None:
        given = {"assign": '{"t": [1]}', "subscribe": None, "columns": columns}
        found = read("auto", ordered="true", **given)

        assert found.columns == columns.split(",")
        assert found.collect() == read("log", **given).collect()

    def test_knows_no_table_where_there_is_none(self, spark: SparkSession, tmp_path: Path) -> None:
        log_dir = topic_with_table(tmp_path / "other", 1)
        append(log_dir, 0, ["a"])

        assert consume(spark, log_dir, subscribe="t", history="auto").count() == 1

    def test_leaves_a_table_alone_that_somebody_has_changed(
        self, spark: SparkSession, log_dir: str, read: Read
    ) -> None:
        spark.sql(f"DELETE FROM delta.`{table_path(log_dir)}` WHERE offset = 1")

        with pytest.warns(SparklogWarning, match="is DELETE by Apache-Spark.*reading the log"):
            auto = read("auto")
        assert rows(auto) == rows(read("log"))

    def test_a_rebuild_undoes_a_delete_by_deletion_vectors(
        self, spark: SparkSession, log_dir: str, read: Read
    ) -> None:
        """To every reader of Delta the file with the vector is gone, too."""
        table = f"delta.`{table_path(log_dir)}`"
        on = "'delta.enableDeletionVectors' = 'true'"
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({on})")
        spark.sql(f"DELETE FROM {table} WHERE offset = 1")
        build(log_dir, rebuild=True)

        by_delta = spark.read.format("delta").load(str(table_path(log_dir)))
        assert rows(by_delta.select("partition", "offset")) == rows(
            read("log").select("partition", "offset")
        )

    def test_leaves_a_table_alone_that_a_restored_log_has_outgrown(
        self, spark: SparkSession, log_dir: str, tmp_path: Path
    ) -> None:
        """The table has other records at the offsets that the restored log has given anew."""
        backup = shutil.copytree(log_dir, str(tmp_path / "backup"))
        append(log_dir, 0, ["lost"])
        outcome_of(build_table, log_dir, rebuild=False)
        restored_behind_its_table(log_dir, backup)
        append(backup, 0, ["other", "records"])
        log = consume(spark, backup, subscribe="t")

        with pytest.warns(SparklogWarning, match="is ahead of its log.*reading the log"):
            assert rows(consume(spark, backup, subscribe="t", history="auto")) == rows(log)
        with pytest.raises(UsageError, match="is ahead of its log.*--rebuild"):
            consume(spark, backup, subscribe="t", history="table")
        with pytest.raises(UsageError, match="is ahead of its log"):
            stream_history(spark, backup, "t", lambda _: pytest.fail("written"), tmp_path / "c")

        build(backup, rebuild=True)
        assert rows(consume(spark, backup, subscribe="t", history="table")) == rows(log)

    def test_reads_a_table_that_spark_has_optimized(
        self, spark: SparkSession, log_dir: str, read: Read
    ) -> None:
        outcome_of(build_table, log_dir, rebuild=False)
        spark.sql(f"OPTIMIZE delta.`{table_path(log_dir)}`")
        spark.sql(f"VACUUM delta.`{table_path(log_dir)}`")

        auto = read("auto")
        assert "MapInArrow" not in plan_of(auto)
        assert rows(auto) == rows(read("log"))

    def test_names_a_file_that_somebody_has_deleted(self, read: Read, log_dir: str) -> None:
        (file,) = table_path(log_dir).glob("*.parquet")
        file.unlink()

        with pytest.raises(MissingFileError, match=f"{file.name}.*build_table --rebuild"):
            read("auto")
        assert read("log").count() == 30

    def test_needs_delta_spark(
        self, spark: SparkSession, read: Read, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.spark.requirements._has_class", lambda *_: False)

        with pytest.raises(UsageError, match=r"io.delta:delta-spark_4.2_2.13:4.4.0"):
            read("auto")


class TestTable:
    @pytest.fixture
    def below(self, log_dir: str) -> None:
        """The log has lost what the table keeps."""
        AdminClient(log_dir).delete_records({("t", number): 4 for number in range(3)})

    @pytest.mark.usefixtures("below")
    def test_reads_below_the_log_start(self, read: Read) -> None:
        assert read("table").count() == 15
        assert read("log").count() == 18

    @pytest.mark.parametrize(
        ("options", "offsets"),
        [
            ({"startingOffsets": '{"t": {"1": 3}}'}, [3, 4]),
            ({"startingTimestamp": 2 * HOUR_MS, "endingTimestamp": 4 * HOUR_MS}, [2, 3]),
            ({"endingTimestamp": 99 * HOUR_MS}, [0, 1, 2, 3, 4]),
            ({"endingTimestamp": 2**63 - 1}, [0, 1, 2, 3, 4]),
            ({"ordered": "true", "endingOffsets": '{"t": {"1": 2}}'}, [0, 1]),
            ({"versionAsOf": 1}, []),
            ({"versionAsOf": 1, "endingTimestamp": 4 * HOUR_MS}, []),
        ],
    )
    def test_takes_the_options_of_the_log(
        self, read: Read, options: Any, offsets: list[int]
    ) -> None:
        found = read("table", subscribe=None, assign='{"t": [1]}', **options)

        assert sorted(row.offset for row in found.collect()) == offsets

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"endingOffsets": '{"t": {"0": 7}}'}, r"in the table, which holds \[0, 5\)"),
            ({"startingTimestamp": 99 * HOUR_MS}, "no record of the table is at or after"),
            (
                {"startingOffsets": '{"t": {"0": 3}}', "endingOffsets": '{"t": {"0": 2}}'},
                "the starting offset 3 is above the ending offset 2",
            ),
        ],
    )
    def test_refuses_what_it_has_not_got(self, read: Read, options: Any, problem: str) -> None:
        with pytest.raises(OffsetOutOfRangeError, match=problem):
            read("table", **options)

    def test_says_that_there_is_none(self, spark: SparkSession, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "other", "t", 1)

        with pytest.raises(UsageError, match="'t' has no table: set its config"):
            consume(spark, log_dir, subscribe="t", history="table")


class TestCatalog:
    def test_has_the_table_under_a_name(self, spark: SparkSession, log_dir: str) -> None:
        spark.sql("CREATE DATABASE IF NOT EXISTS history")
        create_table(spark, "history.flights", log_dir, "t")

        assert spark.table("history.flights").where("partition = 1").count() == 5
        spark.sql("DROP TABLE history.flights")
        assert marks_of(log_dir)[0] == Mark(0, 5)

    def test_takes_no_topic_without_a_table(self, spark: SparkSession, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "other", "t", 1)

        with pytest.raises(UsageError, match="has no table"):
            create_table(spark, "flights", log_dir, "t")


class TestStream:
    def stream(self, spark: SparkSession, log_dir: str, tmp_path: Path) -> None:
        def write(rows: DataFrame) -> DataStreamWriter:
            writer = rows.writeStream.format("delta").option("path", str(tmp_path / "sink"))
            return writer.trigger(availableNow=True)

        query = stream_history(spark, log_dir, "t", write, str(tmp_path / "checkpoint"))
        query.awaitTermination()

    def offsets(self, spark: SparkSession, tmp_path: Path) -> list[tuple[int, int]]:
        found = spark.read.format("delta").load(str(tmp_path / "sink")).collect()
        return sorted((row.partition, row.offset) for row in found)

    def test_reads_the_table_and_goes_on_with_the_log(
        self, spark: SparkSession, log_dir: str, tmp_path: Path
    ) -> None:
        self.stream(spark, log_dir, tmp_path)
        fill(log_dir, 10)
        outcome_of(build_table, log_dir, rebuild=False)
        self.stream(spark, log_dir, tmp_path)

        assert self.offsets(spark, tmp_path) == [(p, n) for p in range(3) for n in range(15)]

    def test_refuses_a_sink_that_takes_its_queries_for_one(
        self, spark: SparkSession, log_dir: str, tmp_path: Path
    ) -> None:
        """A file sink passes over the micro-batches whose numbers it has."""

        def write(rows: DataFrame) -> DataStreamWriter:
            return rows.writeStream.option("path", str(tmp_path / "files"))

        with pytest.raises(UsageError, match=r"FileSink\[.*leave out as many of the log"):
            stream_history(spark, log_dir, "t", write, str(tmp_path / "checkpoint"))
        assert not (tmp_path / "checkpoint" / "handover").exists()

    def test_goes_on_behind_an_erasure(
        self, spark: SparkSession, log_dir: str, tmp_path: Path
    ) -> None:
        """The first query has failed; since then a version of the table replaces a file."""

        def refuse(*_: Any) -> None:
            raise OSError("the sink is down")

        def broken(rows: DataFrame) -> DataStreamWriter:
            return rows.writeStream.foreachBatch(refuse)

        with pytest.raises(StreamingQueryException, match="the sink is down"):
            stream_history(spark, log_dir, "t", broken, str(tmp_path / "checkpoint"))
        erased(log_dir, "key 1")
        outcome_of(build_table, log_dir, rebuild=False)
        self.stream(spark, log_dir, tmp_path)

        others = [one for one in self.offsets(spark, tmp_path) if one[0] != 1]
        assert others == [(p, n) for p in (0, 2) for n in range(10)]

    def test_reads_partitions_that_are_added_meanwhile_from_their_start(
        self, spark: SparkSession, log_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_new = LocalFiles.put_new

        def added(*given: Any, **how: Any) -> bool:
            with monkeypatch.context() as once:
                once.setattr(LocalFiles, "put_new", put_new)
                AdminClient(log_dir).create_partitions({"t": 4})
                append(log_dir, 3, ["a", "b"])
                return put_new(*given, **how)

        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "put_new", added)
            self.stream(spark, log_dir, tmp_path)

        whole = [(p, n) for p in range(3) for n in range(10)]
        assert self.offsets(spark, tmp_path) == [*whole, (3, 0), (3, 1)]

    def test_killed_at_the_seam_it_reads_no_row_twice(
        self, spark: SparkSession, log_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "put_new", killed)
            with pytest.raises(KeyboardInterrupt):
                self.stream(spark, log_dir, tmp_path)
        fill(log_dir, 10)
        outcome_of(build_table, log_dir, rebuild=False)
        self.stream(spark, log_dir, tmp_path)

        assert self.offsets(spark, tmp_path) == [(p, n) for p in range(3) for n in range(15)]


def killed(*_: Any, **__: Any) -> bool:
    raise KeyboardInterrupt
