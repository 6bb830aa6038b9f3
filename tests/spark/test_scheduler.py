"""The scheduler as a process: it runs jobs, tells of them, and ends when it is asked to."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

import pytest

from sparklog.clock import SystemClock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.leases import Leases
from sparklog.metadata.names import entry_path
from tests.logs import append, catalog, live_rows, new_topic
from tests.wire.processes import IN_TERMINAL

pytestmark = pytest.mark.spark

CONFIG = """
log.dirs = [{log_dir!r}]
sparklog.metrics.port = 0
log.retention.check.interval.ms = 200
log.cleaner.backoff.ms = -1
sparklog.merge.segments.interval.ms = -1
sparklog.vacuum.interval.ms = -1
sparklog.build.index.interval.ms = -1
sparklog.verify.interval.ms = {verify_ms}
spark.master = "local[1]"
"""


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic of a segment that is too old and one that is not indexed yet."""
    config = {"retention.ms": "3600000", "index.build": "job", "index.interval.bytes": "10"}
    log_dir = new_topic(tmp_path / "log", partitions=1, config=config)
    append(log_dir, 0, range(5), timestamps=[1] * 5)
    return log_dir


@contextmanager
def scheduler(log_dir: str, verify_ms: int = -1) -> Iterator["subprocess.Popen[str]"]:
    """A scheduler of retention, five times a second, and perhaps of verify."""
    file = Path(log_dir).parent / "scheduler.toml"
    file.write_text(CONFIG.format(log_dir=log_dir, verify_ms=verify_ms))
    command = [*IN_TERMINAL, sys.executable, "-m", "jobs.scheduler", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


FIGURES = ("runs_total", "failures_total", "last_success_timestamp_seconds")


def lines(output: IO[str] | None) -> Iterator[dict[str, Any]]:
    assert output is not None
    return (json.loads(line) for line in output)


def next_run(runs: Iterator[dict[str, Any]], job: str) -> dict[str, Any]:
    return next(run for run in runs if run.get("job") == job)


def children(process: int, name: str) -> list[int]:
    """Process ids of a process's children, and theirs, that run a program of this name."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    below = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    found = [one for one in below if Path(f"/proc/{one}/comm").read_text().strip() == name]
    return found + [deep for one in below for deep in children(one, name)]


def metric(port: int, name: str, job: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    (value,) = re.findall(rf'^{name}{{job="{job}",[^}}]*}} (\S+)$', text, re.MULTILINE)
    return float(value)


class TestProcess:
    def test_runs_jobs_tells_of_them_and_ends(self, log_dir: str) -> None:
        with scheduler(log_dir, verify_ms=3_600_000) as process:
            runs = lines(process.stdout)
            port = next(runs)["metrics_port"]
            first = next_run(runs, "retention")
            verified = next_run(runs, "verify")
            again = next_run(runs, "retention")
            counts = [metric(port, f"sparklog_job_{name}", "retention") for name in FIGURES]
            process.send_signal(signal.SIGHUP)  # which does what SIGTERM does
            ended = process.wait(120)

        assert (first["exit_code"], first["steps"][0]["segments"]) == (0, 1)
        assert (again["exit_code"], again["steps"]) == (3, [])
        assert (verified["exit_code"], verified["log_dir"]) == (0, log_dir)
        assert len(live_rows(log_dir)) == 0
        assert (counts[0] >= 2, counts[1], counts[2] > 1e9) == (True, 0, True)
        assert ended == 0

    def test_leaves_out_what_somebody_else_is_at(self, log_dir: str) -> None:
        context = JobContext(catalog(log_dir), LocalFleet())
        with scheduler(log_dir) as process:
            runs = lines(process.stdout)
            next_run(runs, "retention")
            with Leases(context, "somebody").held("retention", "t"):
                append(log_dir, 0, range(5), timestamps=[1] * 5)
                skipped = next(run for run in runs if run.get("steps"))
            done = next(run for run in runs if run["steps"] and "segments" in run["steps"][0])

        assert skipped["steps"][0]["skipped"] == 1
        assert skipped["steps"][0]["notes"][0].startswith("held by somebody until 2")
        assert done["steps"][0]["segments"] == 1

    def test_goes_on_after_a_failure(self, log_dir: str) -> None:
        with scheduler(log_dir) as process:
            runs = lines(process.stdout)
            port = next(runs)["metrics_port"]
            next_run(runs, "retention")
            torn = Path(log_dir) / entry_path(catalog(log_dir).image().version + 1)
            torn.write_bytes(b"{")
            broken = next(run for run in runs if run["exit_code"] == 1)
            failures = metric(port, "sparklog_job_failures_total", "retention")
            torn.unlink()
            mended = next(run for run in runs if run["exit_code"] != 1)
            process.send_signal(signal.SIGINT)
            ended = process.wait(120)

        assert broken["error"].startswith(f"CorruptMetadataError: {torn.relative_to(log_dir)}")
        assert failures >= 1
        assert mended["exit_code"] in (0, 3)
        assert ended == 0

    def test_ends_when_its_jvm_is_lost(self, log_dir: str) -> None:
        """Its supervisor starts a new one; what it had to do is done then."""
        append(log_dir, 0, range(5), timestamps=[SystemClock().now_ms()] * 5)
        with scheduler(log_dir, verify_ms=1000) as process:
            runs = lines(process.stdout)
            next_run(runs, "verify")
            (jvm,) = children(process.pid, "java")
            os.kill(jvm, signal.SIGKILL)
            told = next(run for run in runs if "error" in run)
            ended = process.wait(120)

        assert (told["job"], told["exit_code"], ended) == ("verify", 1, 1)
        assert told["error"].endswith("(Spark is lost: the scheduler ends)")


class TestMisuse:
    @pytest.mark.parametrize("text", ["", "log.dir = []", None])
    def test_a_broken_configuration_is_one_line(self, tmp_path: Path, text: str | None) -> None:
        file = tmp_path / "scheduler.toml"
        if text is not None:
            file.write_text(text)
        command = [sys.executable, "-m", "jobs.scheduler", "--config", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)

        assert ended.returncode == 2
        assert ended.stderr.startswith("sparklog: error: --config ")
        assert ended.stderr.count("\n") == 1
