"""A read of table and log is planned; how conditions on a table and its address are spelt."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import erase_table
from sparklog.config.options import CONSUME_OPTIONS, HISTORY_OPTIONS, parse_options
from sparklog.errors import OffsetOutOfRangeError, SparklogWarning, UnknownTopicError
from sparklog.spark.lake import history_plan, table_part
from sparklog.spark.lake.history_plan import HistoryPlan, plan_auto
from sparklog.spark.lake.location import spark_location
from sparklog.spark.lake.table_part import TablePart
from sparklog.spark.lake.table_plan import plan_table
from sparklog.spark.reading.plan import plan_ranges
from sparklog.storage import open_files
from sparklog.table.marks import Mark, Marks
from tests.erasing import ALICE, erased
from tests.logs import append, catalog, client
from tests.tables import build, table_path, topic_with_table


def condition(marks: dict[int, Mark], spans: dict[int, list[tuple[int, int]]]) -> str | None:
    return TablePart("t", "", 0, Marks(marks, {}), spans=spans).condition()


def tasks(plan: HistoryPlan) -> list[list[int]]:
    """The partitions that each task reads of the log."""
    return [[one.partition for one in ranges] for ranges in plan.log]


class TestCondition:
    def test_is_none_for_the_whole_table(self) -> None:
        assert condition({0: Mark(0, 5), 1: Mark(2, 3)}, {0: [(0, 5)], 1: [(2, 3)]}) is None

    def test_names_partitions_with_the_same_spans_together(self) -> None:
        marks = dict.fromkeys(range(3), Mark(0, 9))

        assert condition(marks, {0: [(1, 4)], 2: [(1, 4)]}) == (
            "(`partition` IN (0, 2) AND ((`offset` >= 1 AND `offset` < 4)))"
        )
        assert condition(marks, {1: [(0, 9)]}) == "(`partition` IN (1))"

    def test_looks_many_spans_up_in_arrays(self) -> None:
        marks = dict.fromkeys(range(100), Mark(0, 900))
        spans = {number: [(number, 800)] for number in range(100)}
        spans[7] = [(0, 2), (4, 6)]
        found = condition(marks, spans)

        assert found is not None
        assert "element_at(array(0L, 1L, 2L" in found
        assert found.endswith(
            "(`partition` IN (7) AND ((`offset` >= 0 AND `offset` < 2) OR "
            "(`offset` >= 4 AND `offset` < 6)))"
        )


class TestLocation:
    @pytest.mark.parametrize(
        ("log_dir", "options", "location"),
        [
            ("/data/log", {}, "file:///data/log/t/table"),
            ("s3://bucket/a", {"AWS_REGION": "eu-central-1"}, "s3a://bucket/a/t/table"),
            ("gs://bucket/a", {}, "gs://bucket/a/t/table"),
            (
                "az://box/a",
                {"AZURE_STORAGE_ACCOUNT_NAME": "me"},
                "abfss://box@me.dfs.core.windows.net/a/t/table",
            ),
        ],
    )
    def test_is_spelt_as_sparks_file_systems_do(
        self, log_dir: str, options: dict[str, str], location: str
    ) -> None:
        assert spark_location(open_files(log_dir, options), "t/table") == location


class TestPlan:
    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        """Three records in the table, two behind it."""
        log_dir = topic_with_table(tmp_path / "log", 1)
        append(log_dir, 0, ["a", "b", "c"])
        build(log_dir)
        append(log_dir, 0, ["d", "e"])
        return log_dir

    def plan(self, log_dir: str, **options: Any) -> HistoryPlan:
        given = {"subscribe": "t", **options}
        parsed, _ = parse_options((*CONSUME_OPTIONS, *HISTORY_OPTIONS), given)
        return plan_auto(catalog(log_dir), parsed)

    def test_takes_history_from_the_table_and_the_rest_from_the_log(self, log_dir: str) -> None:
        plan = self.plan(log_dir)

        assert [one.spans for one in plan.tables] == [{0: [(0, 3)]}]
        assert [(one.start, one.end) for (one,) in plan.log] == [(3, 5)]

    @pytest.mark.parametrize(
        ("offsets", "named"), [('{"u": {"0": 5}}', "u-0"), ('{"u": {"*": 5}}', "u")]
    )
    def test_of_the_table_alone_refuses_offsets_of_other_partitions(
        self, log_dir: str, offsets: str, named: str
    ) -> None:
        given = {"subscribe": "t", "startingOffsets": offsets}
        parsed, _ = parse_options((*CONSUME_OPTIONS, *HISTORY_OPTIONS), given)
        with pytest.raises(UnknownTopicError, match=f"for {named}, which the read does not"):
            plan_table(catalog(log_dir), parsed)

    @pytest.mark.parametrize("side", ["startingOffsets", "endingOffsets"])
    def test_of_the_table_alone_refuses_offsets_of_a_partition_that_it_lacks(
        self, log_dir: str, side: str
    ) -> None:
        client(log_dir).create_partitions({"t": 2})
        append(log_dir, 1, ["new", "newer"])
        given = {"subscribe": "t", side: '{"t": {"1": 1}}'}
        parsed, _ = parse_options((*CONSUME_OPTIONS, *HISTORY_OPTIONS), given)
        plan = plan_table(catalog(log_dir), parsed)

        with pytest.raises(
            OffsetOutOfRangeError, match=r"t-1: .* in the table, which holds \[0, 0"
        ):
            plan.parts({}, parsed)

    def test_cuts_the_log_alone(self, log_dir: str) -> None:
        assert len(self.plan(log_dir, minPartitions=2).log) == 2

    def test_gives_a_task_several_small_ranges(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = topic_with_table(tmp_path / "wide", 4)
        for partition in range(4):
            append(log_dir, partition, ["a", "b"])

        assert tasks(self.plan(log_dir)) == [[0, 1, 2, 3]]
        assert tasks(self.plan(log_dir, minPartitions=1)) == [[0], [1], [2], [3]]
        assert tasks(self.plan(log_dir, maxRecordsPerPartition=9)) == [[0], [1], [2], [3]]
        monkeypatch.setattr(history_plan, "TASK_BYTES", 200)
        assert tasks(self.plan(log_dir)) == [[0, 1], [2, 3]]
        monkeypatch.setattr(history_plan, "TASK_BYTES", 10)
        assert tasks(self.plan(log_dir)) == [[0], [1], [2], [3]]

    def test_leaves_a_table_alone_that_is_ahead_of_a_restored_log(
        self, log_dir: str, tmp_path: Path
    ) -> None:
        backup = shutil.copytree(log_dir, tmp_path / "backup")
        build(log_dir)
        table = table_path(log_dir)
        shutil.rmtree(backup / table.relative_to(log_dir))
        append(log_dir, 0, ["lost"])
        build(log_dir)
        shutil.copytree(table, backup / table.relative_to(log_dir))

        with pytest.warns(SparklogWarning, match="is ahead of its log.*reading the log"):
            assert self.plan(str(backup)).tables == []

    def test_reads_the_log_where_somebody_has_deleted_the_table(self, log_dir: str) -> None:
        shutil.rmtree(table_path(log_dir))
        plan = self.plan(log_dir)

        assert (plan.tables, [(one.start, one.end) for (one,) in plan.log]) == ([], [(0, 5)])
        build(log_dir)
        assert [one.spans for one in self.plan(log_dir).tables] == [{0: [(0, 5)]}]

    def test_reads_the_log_while_records_are_erased(self, log_dir: str) -> None:
        found = catalog(log_dir)
        number = erase_table.begin(found, found.topic("t"))
        with pytest.warns(SparklogWarning, match="are being erased from topic 't'.*the log"):
            assert self.plan(log_dir).tables == []

        erase_table.end(found, found.topic("t"), number)
        assert len(self.plan(log_dir).tables) == 1

    def test_is_made_again_if_an_erasure_comes_between(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        meanwhile = [lambda: erased(log_dir, ALICE)]

        def planned(*arguments: Any) -> Any:
            if meanwhile:
                meanwhile.pop()()
            return plan_ranges(*arguments)

        monkeypatch.setattr(history_plan, "plan_ranges", planned)
        assert [one.marks.erasing for one in self.plan(log_dir).tables] == [2]

    def test_names_the_files_of_a_table_that_has_few(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (part,) = self.plan(log_dir).tables
        table = table_path(log_dir)
        assert part.files == [f"file://{path}" for path in table.glob("*.parquet")]

        monkeypatch.setattr(table_part, "FILES_MAX", 0)
        assert [one.files for one in self.plan(log_dir).tables] == [()]

    def test_names_no_files_that_spark_takes_for_patterns(self, tmp_path: Path) -> None:
        log_dir = topic_with_table(tmp_path / "log[1]", 1)
        append(log_dir, 0, ["a"])
        build(log_dir)

        assert [one.files for one in self.plan(log_dir).tables] == [()]

    def test_pins_the_version_of_the_table(self, log_dir: str) -> None:
        plan = self.plan(log_dir)
        build(log_dir)

        assert [one.version for one in plan.tables] == [0]
        assert [one.version for one in self.plan(log_dir).tables] == [1]
