"""The table of a log dir that was restored: taken for a copy of its log, or not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sparklog.config.options import CONSUME_OPTIONS, HISTORY_OPTIONS, parse_options
from sparklog.errors import SparklogWarning, UsageError
from sparklog.maintenance.verification.verify import verify
from sparklog.spark.lake.history_plan import HistoryPlan, plan_auto
from sparklog.spark.lake.table_plan import plan_table
from tests.erasing import ALICE, erased, keyed
from tests.logs import append, catalog, client, new_topic, rows
from tests.maintenance import run
from tests.restoring import restored, restored_behind_its_table
from tests.tables import (
    WITH_TABLE,
    build,
    marks_of,
    problems,
    table_of,
    table_path,
    topic_with_table,
)


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Three records, in log and table."""
    log_dir = topic_with_table(tmp_path / "log", 1)
    append(log_dir, 0, ["a", "b", "c"])
    build(log_dir)
    return log_dir


@pytest.fixture
def backup(log_dir: str, tmp_path: Path) -> str:
    return shutil.copytree(log_dir, str(tmp_path / "backup"))


@pytest.fixture
def outgrown(log_dir: str, backup: str) -> str:
    """A restored log dir whose table has a record of its original; its log has others there."""
    append(log_dir, 0, ["lost"])
    build(log_dir)
    restored_behind_its_table(log_dir, backup)
    append(backup, 0, ["other", "records"])
    return backup


def auto(log_dir: str) -> HistoryPlan:
    return plan_auto(catalog(log_dir), options())


def options() -> dict[str, Any]:
    return parse_options((*CONSUME_OPTIONS, *HISTORY_OPTIONS), {"subscribe": "t"})[0]


def verified(log_dir: str) -> list[str]:
    return problems(run(verify, log_dir, repair=False, table=True)[1])


class TestATableOfTheBackup:
    def test_is_read_and_built_on(self, log_dir: str, tmp_path: Path) -> None:
        copy = restored(log_dir, tmp_path / "copy")
        append(copy, 0, ["new"])

        assert [one.spans for one in auto(copy).tables] == [{0: [(0, 3)]}]
        assert problems(build(copy)) == []
        assert [one.spans for one in auto(copy).tables] == [{0: [(0, 4)]}]
        assert verified(copy) == []

    def test_stays_one_if_the_original_goes_on_without_it(self, log_dir: str, backup: str) -> None:
        append(log_dir, 0, ["lost"])
        restored_behind_its_table(log_dir, backup)
        append(backup, 0, ["other"])

        assert len(auto(backup).tables) == 1

    def test_stays_one_if_other_topics_go_on(self, log_dir: str, backup: str) -> None:
        """The version that counts is that of the topic."""
        new_topic(log_dir, "u", 1, WITH_TABLE)
        append(log_dir, 0, ["x"], topic="u")
        build(log_dir)
        restored_behind_its_table(log_dir, backup)

        assert len(auto(backup).tables) == 1


class TestATableThatIsNewerThanTheBackup:
    def test_is_not_read(self, outgrown: str) -> None:
        ended = "has records of version .* of log .{22}, the log dir ends that log at version 2"
        with pytest.warns(SparklogWarning, match=f"{ended}.*reading the log"):
            plan = auto(outgrown)

        assert (plan.tables, [(one.start, one.end) for (one,) in plan.log]) == ([], [(0, 5)])
        with pytest.raises(UsageError, match=f"is ahead of its log.*{ended}.*--rebuild --topic t"):
            plan_table(catalog(outgrown), options())

    def test_is_not_built_on(self, outgrown: str) -> None:
        """It may have the only copy of the lost records, so nothing of it goes by itself."""
        (line,) = problems(build(outgrown))

        assert "is ahead of its log, as after a restore" in line
        assert table_of(outgrown)["value"].to_pylist() == [b"a", b"b", b"c", b"lost"]

    def test_is_told_by_verify(self, outgrown: str) -> None:
        first, second = verified(outgrown)

        assert "is ahead of its log" in first
        assert second.startswith("t-0: offsets [0, 4): the log has 4 records with hash")

    def test_is_one_again_after_a_rebuild(self, outgrown: str) -> None:
        assert problems(build(outgrown, rebuild=True)) == []
        append(outgrown, 0, ["more"])
        build(outgrown)

        assert [one.spans for one in auto(outgrown).tables] == [{0: [(0, 6)]}]
        assert table_of(outgrown)["value"].to_pylist() == [row.value for row in rows(outgrown)[0]]
        assert verified(outgrown) == []

    def test_is_not_read_by_a_copy_of_the_copy(self, outgrown: str, tmp_path: Path) -> None:
        copy = restored(outgrown, tmp_path / "again")

        with pytest.warns(SparklogWarning, match="is ahead of its log"):
            assert auto(copy).tables == []

    def test_is_none_of_another_log_dir(self, log_dir: str, tmp_path: Path, backup: str) -> None:
        """The table of a restored copy, put into the original."""
        copy = restored(backup, tmp_path / "copy")
        append(copy, 0, ["d"])
        build(copy)
        append(log_dir, 0, ["other", "records"])
        table = table_path(copy)
        shutil.copytree(table, Path(log_dir) / table.relative_to(copy), dirs_exist_ok=True)

        with pytest.warns(SparklogWarning, match="the log dir has nothing of that log"):
            assert auto(log_dir).tables == []

    def test_is_one_from_which_records_were_erased(self, tmp_path: Path) -> None:
        """The restored log has the records again, and its table has not."""
        log_dir = topic_with_table(tmp_path / "log", 1)
        keyed(log_dir)
        build(log_dir)
        backup = shutil.copytree(log_dir, str(tmp_path / "backup"))
        erased(log_dir, ALICE)
        restored_behind_its_table(log_dir, backup)

        with pytest.warns(SparklogWarning, match="is ahead of its log"):
            assert auto(backup).tables == []

    def test_may_have_partitions_that_the_log_lacks(self, log_dir: str, backup: str) -> None:
        client(log_dir).create_partitions({"t": 2})
        append(log_dir, 1, ["lost"])
        build(log_dir)
        restored_behind_its_table(log_dir, backup)
        build(backup, rebuild=True)

        assert (marks_of(backup)[1], table_of(backup).num_rows) == ((0, 0), 3)
        client(backup).create_partitions({"t": 2})
        append(backup, 1, ["other"])
        build(backup)
        assert marks_of(backup)[1] == (0, 1)
        assert [one.spans for one in auto(backup).tables] == [{0: [(0, 3)], 1: [(0, 1)]}]


def test_a_topic_that_takes_a_name_again_has_a_table_of_its_own(log_dir: str) -> None:
    client(log_dir).delete_topics(["t"])
    new_topic(log_dir, "t", 1, WITH_TABLE)
    append(log_dir, 0, ["new"])

    plan = auto(log_dir)
    assert (plan.tables, [(one.start, one.end) for (one,) in plan.log]) == ([], [(0, 1)])
    build(log_dir)
    assert table_of(log_dir)["value"].to_pylist() == [b"new"]
    assert [one.spans for one in auto(log_dir).tables] == [{0: [(0, 1)]}]


def test_a_table_that_names_no_log_is_judged_by_its_ends(log_dir: str, backup: str) -> None:
    """Tables that were built before marks named the log."""
    append(log_dir, 0, ["d"])
    build(log_dir, rebuild=True)
    for entry in Path(log_dir).glob("t-*/table/_delta_log/*.json"):
        entry.write_text(without_log(entry.read_text()))

    assert [one.spans for one in auto(log_dir).tables] == [{0: [(0, 4)]}]
    assert problems(build(log_dir)) == []
    restored_behind_its_table(log_dir, backup)
    (line,) = problems(build(backup))
    assert "partition 0 of the table ends at 4, the log at 3" in line


def without_log(entry: str) -> str:
    """An entry of a table as it was before marks named the log."""
    lines = [json.loads(line) for line in entry.splitlines()]
    kept = [one for one in lines if "/log/" not in one.get("txn", {}).get("appId", "")]
    return "".join(f"{json.dumps(one)}\n" for one in kept)
