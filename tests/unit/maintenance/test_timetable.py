"""When a job is due, as one process after another sees it."""

from pathlib import Path

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import StorageFullError
from sparklog.maintenance.timetable import KEPT_MS, RETRY_MS, Timetable
from sparklog.metadata.catalog import Catalog
from sparklog.storage.local import LocalFiles
from tests.maintenance import new_topic

DAY_MS = 24 * 3_600_000


class Life:
    """A log dir, its clock, and the processes that keep its timetable."""

    def __init__(self, log_dir: str) -> None:
        self.clock = ManualClock()
        self._log_dir = log_dir
        self.processes = 0

    def started(self) -> Timetable:
        """A process that has been started."""
        self.processes += 1
        log = Catalog(LocalFiles(self._log_dir), self.clock).log
        return Timetable(log, self.clock, f"process {self.processes}")

    def run(self, timetable: Timetable, interval_ms: int = DAY_MS, takes_ms: int = 1000) -> int:
        """Run a job if it is due; otherwise say when."""
        started_ms = self.clock.now_ms()
        left_ms = timetable.claim("verify", interval_ms)
        if left_ms == 0:
            self.clock.advance(takes_ms)
            timetable.ended("verify", interval_ms, started_ms)
        return left_ms


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(new_topic(tmp_path / "log"))


class TestTimetable:
    def test_a_job_that_never_ran_is_due(self, life: Life) -> None:
        assert life.run(life.started()) == 0

    def test_a_restart_does_not_repeat_a_job(self, life: Life) -> None:
        life.run(life.started(), takes_ms=1000)

        again = life.started()
        assert life.run(again) == DAY_MS - 1000
        life.clock.advance(DAY_MS - 1001)
        assert life.run(again) == 1
        life.clock.advance(1)
        assert life.run(again) == 0

    def test_a_run_of_a_clock_that_was_a_year_ahead_does_not_count(self, life: Life) -> None:
        right_ms = life.clock.now_ms()
        life.clock.advance(365 * DAY_MS)
        life.run(life.started())
        life.clock.set_wall(right_ms)

        assert life.run(life.started()) == 0
        assert life.run(life.started()) == DAY_MS - 1000

    def test_a_job_that_runs_for_longer_than_its_interval_is_due_at_once(self, life: Life) -> None:
        life.run(life.started(), takes_ms=2 * DAY_MS)

        assert life.run(life.started()) == 0

    def test_a_run_that_was_cut_off_is_made_up_for_within_the_hour(self, life: Life) -> None:
        life.started().claim("verify", DAY_MS)

        again = life.started()
        assert life.run(again) == RETRY_MS
        life.clock.advance(RETRY_MS)
        assert life.run(again) == 0

    def test_of_two_processes_one_runs_a_job(self, life: Life) -> None:
        first, second = life.started(), life.started()
        life.run(first)
        life.clock.advance(DAY_MS)

        assert [life.run(second), life.run(first)] == [0, DAY_MS - 1000]

    def test_another_interval_counts_at_once(self, life: Life) -> None:
        life.run(life.started())

        assert life.run(life.started(), DAY_MS // 2) == 0

    def test_a_process_that_takes_a_job_to_be_due_may_run_it_again(self, life: Life) -> None:
        timetable = life.started()
        life.run(timetable)

        assert life.run(timetable) == 0

    def test_a_job_of_a_short_interval_is_due_after_each_start(self, life: Life) -> None:
        life.run(life.started(), KEPT_MS - 1)
        before = life.started().log.image().version

        assert life.run(life.started(), KEPT_MS - 1) == 0
        assert life.started().log.image().version == before

    def test_a_full_disk_holds_up_no_job(self, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
        """Vacuum is the one that makes room."""
        timetable = life.started()

        def full(*_: object, **__: object) -> None:
            raise StorageFullError("no space left on device")

        monkeypatch.setattr(timetable.log, "commit", full)

        assert life.run(timetable) == 0
