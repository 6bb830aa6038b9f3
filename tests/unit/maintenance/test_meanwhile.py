"""Jobs whose segments, or whose topic, others remove between the plan and the tasks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.maintenance import table_commit
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Job, Step
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import executed
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.maintenance.verification.verify import verify
from sparklog.table.of_topic import commit
from tests.erasing import flip
from tests.logs import append, log_files
from tests.maintenance import alter, context_of, new_topic
from tests.sweeping import Stuck, delete, directory_of, remove, sweep
from tests.tables import WITH_TABLE, build

JOBS: dict[str, tuple[Job, dict[str, Any]]] = {
    "build_index": (build_index, {"check": True, "rebuild": False}),
    "build_table": (build_table, {"rebuild": False}),
    "compact": (compact, {"force": True, "reindex": False}),
    "merge_segments": (merge_segments, {"seal": False}),
    "verify": (verify, {"repair": False}),
}
CONFIG = {**WITH_TABLE, "cleanup.policy": "compact,delete", "segment.ms": str(2**63 - 1)}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic of one partition, with four segments."""
    log_dir = new_topic(tmp_path / "log", partitions=1, config=CONFIG)
    for _ in range(4):
        append(log_dir, 0, range(9), keys=range(9))
    return log_dir


def planned(log_dir: str, name: str) -> Step:
    """The first step of a job to topic `t`."""
    job, options = JOBS[name]
    return next(step for step in job(context_of(log_dir), (), options) if step.topic == "t")


def unlink_logs(log_dir: str) -> None:
    for path in log_files(log_dir):
        path.unlink()


def expire(log_dir: str) -> None:
    """Remove all segments, as retention does; unlink them, as vacuum does."""
    remove(log_dir, 0, 1, 2, 3)
    unlink_logs(log_dir)


def begin_erasing(log_dir: str) -> None:
    """Delete the topic, and unlink its segments, as a vacuum that has not ended yet."""
    delete(log_dir, "t")
    sweep(log_dir, files=Stuck(log_dir))
    unlink_logs(log_dir)


def erase(log_dir: str) -> None:
    """Delete the topic, and erase it."""
    delete(log_dir, "t")
    sweep(log_dir)


class TestRemovedMeanwhile:
    @pytest.mark.parametrize("name", JOBS)
    @pytest.mark.parametrize("meanwhile", [expire, begin_erasing, erase])
    def test_is_no_problem(self, log_dir: str, name: str, meanwhile: Callable[[str], None]) -> None:
        """Goal: no exit code 1 for what others may do at any time."""
        step = planned(log_dir, name)
        meanwhile(log_dir)
        outcome = executed(step)

        assert not outcome.problems
        is_conflict = (name, meanwhile) != ("verify", expire)
        assert (outcome.counts.get("conflicts", 0) > 0) is is_conflict

    @pytest.mark.parametrize("name", JOBS)
    def test_is_one_while_the_segments_are_live(self, log_dir: str, name: str) -> None:
        step = planned(log_dir, name)
        unlink_logs(log_dir)

        assert executed(step).problems

    @pytest.mark.parametrize("name", ["build_table", "compact", "merge_segments"])
    def test_hides_no_damage(self, log_dir: str, name: str) -> None:
        """Others replace a segment, while the task finds that another one is damaged."""
        step = planned(log_dir, name)
        remove(log_dir, 0)
        for path in log_files(log_dir):
            flip(path, 70)

        assert executed(step).problems


class TestTableOfAnErasedTopic:
    @pytest.mark.parametrize(("is_kept", "files"), [(False, 0), (True, 2)])
    def test_leaves_no_file(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch, is_kept: bool, files: int
    ) -> None:
        """Vacuum has listed the directory before the table is committed there."""
        alter(log_dir, sparklog_table_delete=str(not is_kept).lower())
        step, directory = planned(log_dir, "build_table"), directory_of(log_dir)
        erase_before_commits(log_dir, monkeypatch)
        outcome = executed(step)

        assert len(files_in(directory)) == files
        assert (directory.exists(), outcome.counts.get("conflicts", 0)) == (is_kept, not is_kept)

    def test_leaves_no_horizon_of_a_vacuum(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another vacuum erases the topic while this one is about to unlink an orphan."""
        directory = directory_of(log_dir)
        build(log_dir)
        orphan = directory / "table" / f"part-{'0' * 8}-0000-7000-8000-{'0' * 12}.parquet"
        orphan.touch()
        (step,) = vacuum(context_of(log_dir), ["t"], {})
        erase_before_commits(log_dir, monkeypatch)

        assert executed(step).counts == {"conflicts": 1}
        assert not directory.exists()

    def test_leaves_the_files_of_others(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        step, directory = planned(log_dir, "build_table"), directory_of(log_dir)
        erase_before_commits(log_dir, monkeypatch, "other.parquet")
        executed(step)

        assert files_in(directory) == [directory / "table" / "other.parquet"]

    def test_leaves_no_checkpoint(self, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
        step, directory = planned(log_dir, "build_table"), directory_of(log_dir)
        erase_before_commits(log_dir, monkeypatch, "_delta_log/_last_checkpoint")
        executed(step)

        assert not directory.exists()


def erase_before_commits(log_dir: str, monkeypatch: pytest.MonkeyPatch, *files: str) -> None:
    """Erase the topic before the table is committed; `files` of the table are made then."""
    table = directory_of(log_dir) / "table"

    def late(*arguments: Any) -> Any:
        erase(log_dir)
        table.mkdir(parents=True, exist_ok=True)
        after = commit(*arguments)
        for name in files:
            (table / name).write_text("{}")
        return after

    monkeypatch.setattr(table_commit, "commit", late)


def files_in(directory: Path) -> list[Path]:
    return [one for one in directory.rglob("*") if one.is_file()]
