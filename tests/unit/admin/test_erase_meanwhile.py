"""Erase beside merges and compactions, and killed at any step."""

from pathlib import Path

import pytest

from sparklog.admin.erase import erase
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import executed
from sparklog.metadata.catalog import Catalog
from sparklog.storage.local import LocalFiles
from tests.erasing import ALICE, COMPACTED, SECRET, Meanwhile, erased, keyed, left, share, swept
from tests.logs import OWN_FILES, append, catalog, new_topic
from tests.maintenance import outcome_of
from tests.metadata_logs import CrashError, CrashingLocalFiles


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic with files of its own."""
    return new_topic(tmp_path / "log", partitions=2, config=OWN_FILES)


class TestMeanwhile:
    def test_what_is_produced_behind_the_ends_is_not_looked_for(self, log_dir: str) -> None:
        keyed(log_dir)
        fleet = Meanwhile("search t", lambda: keyed(log_dir))
        report = erase(catalog(log_dir), "t", [ALICE], fleet)

        assert report.records == 3
        assert left(log_dir)[0] == [1, 2, 4, 5, 7, 8, *range(9, 18)]

    def test_a_merge_that_is_faster_is_searched_again(self, log_dir: str) -> None:
        keyed(log_dir)
        keyed(log_dir)
        fleet = Meanwhile("search t", lambda: outcome_of(merge_segments, log_dir, seal=False))
        report = erase(catalog(log_dir), "t", [ALICE], fleet)

        assert report.records == 6
        assert swept(log_dir) == []

    def test_a_merge_that_is_slower_changes_nothing(self, log_dir: str) -> None:
        keyed(log_dir)
        keyed(log_dir)
        context = Catalog(LocalFiles(log_dir))
        fleet = Meanwhile("merge", lambda: erased(log_dir, ALICE))
        for step in merge_segments(JobContext(context, fleet), [], {"seal": False}):
            executed(step)

        assert left(log_dir)[0] == [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17]
        assert swept(log_dir) == []

    def test_a_compaction_that_is_slower_changes_nothing(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=1, config=COMPACTED)
        append(log_dir, 0, [SECRET, "v", "w"], keys=[ALICE, "a", "a"])
        append(log_dir, 0, ["new"], keys=["b"])
        steps = compact(
            JobContext(catalog(log_dir), Meanwhile("keys", lambda: None)),
            [],
            {"force": True, "reindex": False},
        )
        step = next(iter(steps))
        erased(log_dir, ALICE)

        assert executed(step).counts.get("conflicts") == 1
        assert swept(log_dir) == []


class TestCrashes:
    def test_at_any_step_leave_old_or_new_and_the_next_run_does_the_rest(
        self, tmp_path: Path
    ) -> None:
        """Killed before each of its steps: a log is as it was or as it will be, and goes on."""
        crash_at, is_done = 0, False
        while not is_done:
            log_dir = new_topic(tmp_path / str(crash_at), partitions=2)
            share(log_dir, topics=["t"])
            before = left(log_dir)
            try:
                erased(log_dir, ALICE, files=CrashingLocalFiles(log_dir, crash_at))
                is_done = True
            except CrashError:
                assert left(log_dir) in (before, {0: [1, 2, 4, 5, 7, 8], 1: [0, 1]})
            erased(log_dir, ALICE)
            assert left(log_dir) == {0: [1, 2, 4, 5, 7, 8], 1: [0, 1]}
            assert swept(log_dir) == []
            crash_at += 1

        assert crash_at > 5
