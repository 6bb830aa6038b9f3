"""The threads and the timetable of the scheduler, without Spark. As a process: tests/spark."""

import json
from collections.abc import Iterator, Mapping, Sequence
from errno import ENOSPC
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from sparklog.clock import ManualClock, SystemClock
from sparklog.maintenance.job import Job, JobContext, Outcome, Step
from sparklog.maintenance.leases import Leases
from sparklog.maintenance.registry import JOBS, ScheduledJob
from sparklog.maintenance.runner import NOTHING_TO_DO
from sparklog.maintenance.timetable import RETRY_MS
from sparklog.spark.jobs import scheduler as scheduler_module
from sparklog.spark.jobs.scheduler import SKIPPED_MS, Scheduler
from sparklog.spark.jobs.scheduler_config import Schedule, SchedulerConfig, parse
from tests.client_batches import NOW_MS
from tests.maintenance import context_of, new_topic
from tests.transactions import TIMEOUT_MS, Client, Instance, new_log_dir

HOUR_MS = 3_600_000


def job_of(action: Any) -> Job:
    """A job of one step, over topic `t`."""

    def job(
        context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
    ) -> Iterator[Step]:
        del context, topics, options

        def execute() -> Outcome:
            action()
            return Outcome()

        yield Step(topic="t", rows=[{}], execute=execute)

    return job


def schedule(name: str, action: Any, interval_ms: int = HOUR_MS) -> Schedule:
    job = ScheduledJob(name, job_of(action), "a job", f"{name}.ms", interval_ms)
    return Schedule(job=job, interval_ms=interval_ms, topics=(), options={})


def config(log_dirs: Sequence[str], *schedules: Schedule) -> SchedulerConfig:
    return SchedulerConfig(
        log_dirs=log_dirs,
        schedules=schedules,
        metrics_port=-1,
        metrics_host="127.0.0.1",
        spark={},
        storage={},
    )


def nothing() -> None:
    """An action of a job."""


def runs(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return new_topic(tmp_path / "log")


class TestThreads:
    def test_a_long_job_holds_up_no_other(self, log_dir: str) -> None:
        """Goal: a short job goes on. Method: the long one waits until that has run three times."""
        short_runs: list[int] = []
        enough = Event()

        def short() -> None:
            short_runs.append(1)
            if len(short_runs) == 3:
                enough.set()

        waited: list[bool] = []

        def long() -> None:
            waited.append(enough.wait(60))
            scheduler.stopping.set()

        jobs = schedule("long", long), schedule("short", short, interval_ms=1)
        scheduler = Scheduler(config([log_dir], *jobs))

        assert scheduler.serve() == 0
        assert waited == [True]

    def test_a_log_dir_holds_up_no_other(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Method: a job that ends in one log dir when it has begun in the other."""
        dirs = [new_topic(tmp_path / name) for name in "ab"]
        stopping = Event()
        begun = Barrier(2, action=stopping.set)
        one = schedule("one", lambda: begun.wait(60))
        Scheduler(config(dirs, one), stopping=stopping).serve()

        assert sorted(run["log_dir"] for run in runs(capsys)) == dirs

    @pytest.mark.parametrize("error", [BrokenPipeError(), OSError(ENOSPC, "no room")])
    def test_an_output_that_takes_no_line_ends_it(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch, error: OSError
    ) -> None:
        """Else the job's thread would end, and all others would go on."""

        def refuse(_line: object) -> None:
            raise error

        monkeypatch.setattr(scheduler_module, "say", refuse)

        assert Scheduler(config([log_dir], schedule("one", nothing))).serve() == 1


class TestRun:
    def test_is_due_again_after_the_interval(self, log_dir: str) -> None:
        assert Scheduler(config([log_dir])).run(schedule("one", nothing, 7), log_dir) == 7

    def test_is_not_repeated_after_a_restart(
        self, log_dir: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        one = schedule("one", nothing)
        assert Scheduler(config([log_dir])).run(one, log_dir) == HOUR_MS
        left_ms = Scheduler(config([log_dir])).run(one, log_dir)

        assert 0 < left_ms <= HOUR_MS
        assert [run["exit_code"] for run in runs(capsys)] == [0]

    def test_that_left_a_step_out_is_repeated_soon(
        self, log_dir: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        one = schedule("one", nothing)
        with Leases(context_of(log_dir), "somebody").held("one", "t"):
            due_ms = Scheduler(config([log_dir])).run(one, log_dir)

        assert due_ms == SKIPPED_MS
        assert runs(capsys)[0]["steps"][0]["skipped"] == 1

    def test_that_breaks_off_is_told_and_opens_the_log_dir_anew(
        self, log_dir: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail() -> None:
            raise RuntimeError("a bug")

        scheduler = Scheduler(config([log_dir]))
        before = scheduler._catalog(log_dir)
        due_ms = scheduler.run(schedule("one", fail, 2 * RETRY_MS), log_dir)

        (line,) = runs(capsys)
        assert (due_ms, line["exit_code"], line["error"]) == (RETRY_MS, 1, "RuntimeError: a bug")
        assert scheduler._catalog(log_dir) is not before

    def test_reads_the_log_dir_once_for_all_jobs(self, log_dir: str) -> None:
        scheduler = Scheduler(config([log_dir]))
        for name in ("one", "two"):
            scheduler.run(schedule(name, nothing), log_dir)

        assert list(scheduler._catalogs) == [log_dir]

    def test_that_is_stopped_is_made_up_for(self, log_dir: str) -> None:
        """Its claim ends in an hour, not after the interval."""
        scheduler = Scheduler(config([log_dir]))
        scheduler.run(schedule("one", scheduler.stopping.set, 24 * HOUR_MS), log_dir)
        lease = context_of(log_dir).catalog.image().leases[f"schedule/one/{24 * HOUR_MS}"]

        assert lease.expires_ms <= SystemClock().now_ms() + RETRY_MS

    def test_that_sees_the_clock_set_back_tells_how_long_it_took(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        clock = ManualClock()
        monkeypatch.setattr(scheduler_module, "SystemClock", lambda: clock)

        def set_back() -> None:
            clock.sleep_ms(1500)
            clock.set_wall(clock.now_ms() - 24 * HOUR_MS)

        scheduler = Scheduler(config([log_dir]))
        scheduler.run(schedule("one", set_back), log_dir)
        (line,) = runs(capsys)
        by = {"job": "one", "log_dir": log_dir}
        total = "sparklog_job_duration_seconds_sum"

        assert (line["duration_ms"], line["steps"][0]["duration_ms"]) == (1500, 1500)
        assert scheduler.metrics.registry.get_sample_value(total, by) == 1.5


class TestTitle:
    @pytest.mark.parametrize(
        ("text", "title"),
        [
            ("", "verify"),
            ('topics = ["a", "b-*"]', "verify (a, b-*)"),
            ("jobs.verify.repair = true", "verify (repair=True)"),
            ('jobs.verify.topics = ["a"]\njobs.verify.records = true', "verify (a, records=True)"),
        ],
    )
    def test_tells_two_jobs_of_one_name_apart(self, text: str, title: str) -> None:
        found = parse(f'log.dirs = ["log"]\n{text}').schedules

        assert next(one.title for one in found if one.job.name == "verify") == title


def test_a_scheduler_alone_ends_transactions_that_take_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, clock = str(tmp_path / "alone"), ManualClock(NOW_MS)
    client = Client(new_log_dir(path, "t"))
    client.init()
    client.produce("x")
    monkeypatch.setattr(scheduler_module, "SystemClock", lambda: clock)
    job = Schedule(job=JOBS["abort_transactions"], interval_ms=10_000, topics=(), options={})
    scheduler = Scheduler(config([path], job))
    scheduler.run(job, path)
    clock.advance(TIMEOUT_MS + 1)
    scheduler.run(job, path)
    first, second = runs(capsys)

    assert (first["exit_code"], first["steps"], second["exit_code"]) == (NOTHING_TO_DO, [], 0)
    assert (second["steps"][0]["aborted"], Instance(path).state().status) == (1, "CompleteAbort")
