"""The scheduler: every job at its interval, one at a time, over one warm SparkSession.

    python -m jobs.scheduler --config scheduler.toml

One JSON line a run:

    {"job": …, "log_dir": …, "exit_code": 0 | 1 | 3, "started_ms": …, "duration_ms": …,
     "steps": [one object a topic, as the job itself prints it], "error": … when it broke off}

SIGTERM and SIGINT let the step finish that is being done, and then end with exit code 0. When the
session's JVM is lost, the run that met it says so and the process ends with exit code 1: whatever
keeps it running (systemd, Kubernetes) starts a new one. Several schedulers may serve one log dir:
leases keep them from doing the same work. A wrong configuration is exit code 2.
"""

import argparse
import json
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from pyspark.sql import SparkSession

from sparklog.clock import SystemClock
from sparklog.errors import SparklogError
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.leases import Leases, new_owner
from sparklog.maintenance.runner import FAILED, NOTHING_TO_DO, JobRun, StepReport
from sparklog.metadata.catalog import Catalog
from sparklog.spark.jobs.command import MISUSE, storage_settings
from sparklog.spark.jobs.fleet import SparkFleet
from sparklog.spark.jobs.scheduler_config import Schedule, SchedulerConfig, parse
from sparklog.spark.jobs.scheduler_metrics import JobMetrics
from sparklog.spark.session import session
from sparklog.storage import open_files

APP_NAME = "sparklog scheduler"


class _Stopped(Exception):  # noqa: N818 - no error: the scheduler was asked to end
    """Ends a run between two steps."""


@dataclass
class Scheduler:
    """Runs jobs until it is told to stop. Its runs are for one thread."""

    config: SchedulerConfig
    metrics: JobMetrics = field(default_factory=JobMetrics)
    stopping: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._owner = new_owner()
        self._clock = SystemClock()
        self._fleet = SparkFleet(self._session, is_quiet=True)
        self._spark: SparkSession | None = None
        self._exit_code = 0

    def _session(self) -> SparkSession:
        """Return the session, started by the first job that needs it."""
        quiet = {"spark.ui.showConsoleProgress": "false"}
        self._spark = session(APP_NAME, **{**quiet, **self.config.spark})
        return self._spark

    def serve(self) -> int:
        """Run every job at once and then at its interval, until `stopping` is set.

        Returns the exit code: 0 when it was told to stop, 1 when Spark is lost.
        """
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        plans = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1)}, timezone=UTC)
        runs = product(self.config.log_dirs, self.config.schedules)
        for number, (log_dir, schedule) in enumerate(runs):
            plans.add_job(
                self.run,
                "interval",
                (schedule, log_dir),
                id=f"{number:09}",  # what is due at one moment runs in the order of the ids
                seconds=schedule.interval_ms / 1000,
                next_run_time=now,
                coalesce=True,
                misfire_grace_time=None,
            )
        plans.start()
        self.stopping.wait()
        plans.shutdown(wait=True)
        if self._spark is not None and self._exit_code == 0:
            self._spark.stop()
        return self._exit_code

    def run(self, schedule: Schedule, log_dir: str) -> None:
        """Run a job once, and tell of it; whatever it raises is told and ends nothing else."""
        if self.stopping.is_set():
            return
        by, started_ms = (schedule.job.name, log_dir), self._clock.now_ms()
        reports: list[StepReport] = []
        line: dict[str, Any] = {"job": schedule.job.name, "log_dir": log_dir}
        try:
            code = self._run(schedule, log_dir, reports)
        except _Stopped:
            code = FAILED if any(report.is_failed for report in reports) else 0
        except Exception as error:  # noqa: BLE001 - the other jobs go on
            code = FAILED
            line["error"] = f"{type(error).__name__}: {error}"
            if is_lost(self._spark):
                line["error"] += " (Spark is lost: the scheduler ends)"
                self._exit_code = FAILED
                self.stopping.set()
        ended_ms = self._clock.now_ms()
        self.metrics.ended(by, code, started_ms, ended_ms)
        self.metrics.done(by, reports)
        line |= {"exit_code": code, "started_ms": started_ms, "duration_ms": ended_ms - started_ms}
        say({**line, "steps": [report.as_row() for report in reports]})

    def _run(self, schedule: Schedule, log_dir: str, reports: list[StepReport]) -> int:
        files = open_files(log_dir, dict(self.config.storage))
        context = JobContext(Catalog(files, self._clock), self._fleet)
        image = context.catalog.image()
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
            name=schedule.job.name,
            job=schedule.job.job,
            topics=topics if schedule.topics else (),
            options=schedule.options,
            leases=Leases(context, self._owner),
        )
        return run.run(context, report)


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
    print(json.dumps(line, separators=(",", ":")), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        text = Path(given.config).read_text(encoding="utf-8")
        config = parse(text, given.log_dir)
        config.storage.update(storage_settings(given.storage))
    except (SparklogError, OSError, UnicodeDecodeError) as error:
        print(f"sparklog scheduler: error: {error}", file=sys.stderr)
        return MISUSE
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # a run that is late is no news
    scheduler = Scheduler(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: scheduler.stopping.set())
    if config.metrics_port >= 0:
        say({"metrics_port": scheduler.metrics.serve(config.metrics_host, config.metrics_port)})
    return scheduler.serve()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sparklog jobs scheduler", description="Run every job at its interval."
    )
    parser.add_argument("--config", metavar="FILE", required=True, help="A TOML file.")
    parser.add_argument(
        "--log-dir", metavar="DIR", action="append", default=[], help="Instead of log.dirs."
    )
    parser.add_argument(
        "-S", "--storage", metavar="NAME=VALUE", action="append", default=[], help="A setting."
    )
    parser.add_argument("--format", choices=["json"], help="JSON lines, always.")
    parser.add_argument("--quiet", "-q", action="store_true", help="As always: no progress bar.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
