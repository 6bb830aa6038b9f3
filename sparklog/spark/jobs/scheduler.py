"""The scheduler: every job at its interval, each in its own thread, over one warm SparkSession.

    sparklog jobs scheduler --config scheduler.toml

One JSON line a run:

    {"job": …, "log_dir": …, "exit_code": 0 | 1 | 3, "started_ms": …, "duration_ms": …,
     "steps": [one object a topic, as the job itself prints it], "error": … when it broke off}

No job waits for another: Spark's fair scheduler shares the cores out. When two jobs want the same
step, the second one leaves it out and tries again a minute later. The log dir keeps the time at
which a job with a long interval is due (`maintenance.timetable`): a restart neither repeats nor
forgets a run.

On SIGTERM, SIGINT or SIGHUP the current steps are finished, and the exit code is 0; a terminal
that is closed ends the JVM, too. When the session's JVM is lost, the run that notices it reports
it, and the process ends with exit code 1: its supervisor (systemd, Kubernetes) starts a new one.
Several schedulers may serve one log dir: leases keep them from doing the same work. A wrong
configuration is exit code 2.
"""

import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from threading import Event, Lock, Thread
from typing import Any, Final

from pyspark.sql import SparkSession

from sparklog.clock import SystemClock
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.leases import Leases, new_owner
from sparklog.maintenance.runner import FAILED, NOTHING_TO_DO, JobRun, StepReport
from sparklog.maintenance.timetable import RETRY_MS, Timetable
from sparklog.metadata.catalog import Catalog
from sparklog.service.end import hang_up_as_sigterm
from sparklog.spark.jobs.fleet import SparkFleet
from sparklog.spark.jobs.scheduler_config import Schedule, SchedulerConfig
from sparklog.spark.jobs.scheduler_metrics import JobMetrics
from sparklog.spark.session import session
from sparklog.storage import open_files

APP_NAME = "sparklog scheduler"
SKIPPED_MS: Final = 60_000
"""A run that left out a step, because another process held its lease, runs again after this."""

WAKES_S: Final = 1
"""The main thread wakes this often: Python runs signal handlers only there."""


class _Stopped(Exception):  # noqa: N818 - no error: the scheduler was asked to end
    """Ends a run between two steps."""


@dataclass
class Scheduler:
    """Runs jobs until it is told to stop, each over each log dir in a thread of its own."""

    config: SchedulerConfig
    metrics: JobMetrics = field(default_factory=JobMetrics)
    stopping: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._owner = new_owner()
        self._clock = SystemClock()
        self._opening, self._starting = Lock(), Lock()
        self._catalogs: dict[str, Catalog] = {}
        self._spark: SparkSession | None = None
        self._exit_code = 0

    def _session(self) -> SparkSession:
        """Return the session, started by the first job that needs it; jobs share it fairly."""
        conf = {"spark.ui.showConsoleProgress": "false", "spark.scheduler.mode": "FAIR"}
        with self._starting:
            self._spark = session(APP_NAME, **{**conf, **self.config.spark})
            return self._spark

    def _catalog(self, log_dir: str) -> Catalog:
        """Return the catalog of a log dir, which all its runs share until one breaks off."""
        with self._opening:
            if log_dir not in self._catalogs:
                files = open_files(log_dir, dict(self.config.storage))
                self._catalogs[log_dir] = Catalog(files, self._clock)
            return self._catalogs[log_dir]

    def serve(self) -> int:
        """Run every job when it is due, until `stopping` is set.

        Returns the exit code: 0 when it was told to stop, 1 when Spark or the output is lost.
        """
        for log_dir, schedule in product(self.config.log_dirs, self.config.schedules):
            self.metrics.expect((schedule.job.name, log_dir), self._clock.now_ms())
        threads = [
            Thread(target=self._serve, args=(schedule, log_dir), name=schedule.job.name)
            for log_dir, schedule in product(self.config.log_dirs, self.config.schedules)
        ]
        for thread in threads:
            thread.start()
        while not self.stopping.wait(WAKES_S):
            pass
        for thread in threads:
            thread.join()
        if self._spark is not None and self._exit_code == 0:
            self._spark.stop()
        return self._exit_code

    def _serve(self, schedule: Schedule, log_dir: str) -> None:
        """Run a job over a log dir when it is due; end the scheduler if stdout takes no line."""
        left_ms = 0
        try:
            while not self.stopping.wait(left_ms / 1000):
                started_ms = self._clock.boot_ms()
                due_ms = started_ms + self.run(schedule, log_dir)
                left_ms = max(0, due_ms - self._clock.boot_ms())
        except OSError:  # stdout is closed, or its disk is full
            self._exit_code = FAILED
            self.stopping.set()

    def run(self, schedule: Schedule, log_dir: str) -> int:
        """Run a job once and print its line, with any error; other jobs go on.

        Returns how long after its start it is due again, in milliseconds.
        """
        by = (schedule.job.name, log_dir)
        started_ms, begun_ms = self._clock.now_ms(), self._clock.boot_ms()
        reports: list[StepReport] = []
        line: dict[str, Any] = {"job": schedule.job.name, "log_dir": log_dir}
        due_ms = schedule.interval_ms
        try:
            catalog = self._catalog(log_dir)
            timetable = Timetable(catalog.log, self._clock, self._owner)
            if left_ms := timetable.claim(schedule.title, schedule.interval_ms):
                return left_ms
            code = self._run(schedule, catalog, reports)
            if any(is_skipped(report) for report in reports):
                due_ms = min(due_ms, SKIPPED_MS)
            else:
                timetable.ended(schedule.title, schedule.interval_ms, started_ms)
        except _Stopped:
            code = FAILED if any(report.is_failed for report in reports) else 0
        except Exception as error:  # noqa: BLE001 - the other jobs go on
            code, due_ms = FAILED, min(due_ms, RETRY_MS)
            line["error"] = f"{type(error).__name__}: {error}"
            self._catalogs.pop(log_dir, None)
            if is_lost(self._spark):
                line["error"] += " (Spark is lost: the scheduler ends)"
                self._exit_code = FAILED
                self.stopping.set()
        duration_ms = self._clock.boot_ms() - begun_ms
        self.metrics.ended(by, code, duration_ms, self._clock.now_ms())
        self.metrics.done(by, reports)
        line |= {"exit_code": code, "started_ms": started_ms, "duration_ms": duration_ms}
        say({**line, "steps": [report.as_row() for report in reports]})
        return due_ms

    def _run(self, schedule: Schedule, catalog: Catalog, reports: list[StepReport]) -> int:
        name = schedule.job.name
        context = JobContext(catalog, SparkFleet(self._session, is_quiet=True, pool=name))
        image = catalog.image()
        known = {*image.names}
        if schedule.job.takes_deleted:
            known |= {topic.name for topic in image.deleted}
        topics = matching(sorted(known), schedule.topics)
        if schedule.topics and not topics:
            return NOTHING_TO_DO

        def report(one: StepReport) -> None:
            reports.append(one)
            if self.stopping.is_set():
                raise _Stopped

        run = JobRun(
            name=name,
            job=schedule.job.job,
            topics=topics if schedule.topics else (),
            options=schedule.options,
            leases=Leases(context, f"{self._owner}:{name}"),
        )
        return run.run(context, report)


def is_skipped(report: StepReport) -> bool:
    """Return whether a step was left out, because another process held its lease."""
    return report.outcome is not None and "skipped" in report.outcome.counts


def is_lost(spark: SparkSession | None) -> bool:
    """Return whether a session that was started can no longer be used."""
    if spark is None:
        return False
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001 - nothing else tells
    except Exception:  # noqa: BLE001 - py4j raises whatever the socket does
        return True


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that one of the shell patterns matches."""
    return [name for name in names if any(fnmatchcase(name, one) for one in patterns)]


def say(line: dict[str, Any]) -> None:
    """Print a JSON object on a line of its own."""
    text = json.dumps(line, separators=(",", ":"))
    print(f"{text}\n", end="", flush=True)  # in one piece: several threads print


def serve(config: SchedulerConfig) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP; return the exit code."""
    scheduler = Scheduler(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: scheduler.stopping.set())
    hang_up_as_sigterm()
    if config.metrics_port >= 0:
        say({"metrics_port": scheduler.metrics.serve(config.metrics_host, config.metrics_port)})
    return scheduler.serve()
