"""The scheduler as a process: it runs jobs, tells of them, and ends when it is asked to."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

import pytest

from sparklog.maintenance.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.leases import Leases
from tests.logs import append, catalog, new_topic, snapshot

pytestmark = pytest.mark.spark

CONFIG = """
log.dirs = [{log_dir!r}]
sparklog.metrics.port = 0
log.retention.check.interval.ms = 200
log.cleaner.backoff.ms = -1
sparklog.merge.segments.interval.ms = -1
sparklog.vacuum.interval.ms = -1
sparklog.verify.interval.ms = 3600000
spark.master = "local[1]"
"""


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic of a segment that is too old and one that is not indexed yet."""
    config = {"retention.ms": "3600000", "index.build": "job", "index.interval.bytes": "10"}
    log_dir = new_topic(tmp_path / "log", partitions=1, config=config)
    append(log_dir, 0, range(5), timestamps=[1] * 5)
    return log_dir


@pytest.fixture
def process(tmp_path: Path, log_dir: str) -> Iterator["subprocess.Popen[str]"]:
    file = tmp_path / "scheduler.toml"
    file.write_text(CONFIG.format(log_dir=log_dir))
    command = [sys.executable, "-m", "jobs.scheduler", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        yield started
        started.kill()


def lines(output: IO[str] | None) -> Iterator[dict[str, Any]]:
    assert output is not None
    return (json.loads(line) for line in output)


def next_run(runs: Iterator[dict[str, Any]], job: str) -> dict[str, Any]:
    return next(run for run in runs if run.get("job") == job)


def metric(port: int, name: str, job: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    (value,) = re.findall(rf'^{name}{{job="{job}",[^}}]*}} (\S+)$', text, re.MULTILINE)
    return float(value)


class TestProcess:
    def test_runs_jobs_tells_of_them_and_ends(
        self, process: "subprocess.Popen[str]", log_dir: str
    ) -> None:
        runs = lines(process.stdout)
        port = next(runs)["metrics_port"]
        first = next_run(runs, "retention")
        verified = next_run(runs, "verify")
        again = next_run(runs, "retention")

        assert (first["exit_code"], first["steps"][0]["segments"]) == (0, 1)
        assert (again["exit_code"], again["steps"]) == (3, [])
        assert (verified["exit_code"], verified["log_dir"]) == (0, log_dir)
        assert len(snapshot(log_dir).live) == 0
        assert metric(port, "sparklog_job_runs_total", "retention") >= 2
        assert metric(port, "sparklog_job_failures_total", "retention") == 0
        assert metric(port, "sparklog_job_last_success_timestamp_seconds", "retention") > 1e9
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0

    def test_leaves_out_what_somebody_else_is_at_and_goes_on_after_a_failure(
        self, process: "subprocess.Popen[str]", log_dir: str
    ) -> None:
        context = JobContext(catalog(log_dir), LocalFleet())
        runs = lines(process.stdout)
        port = next(runs)["metrics_port"]
        next_run(runs, "retention")
        with Leases(context, "somebody").held("retention", "t"):
            append(log_dir, 0, range(5), timestamps=[1] * 5)
            skipped = next(run for run in runs if run["job"] == "retention" and run["steps"])
        assert skipped["steps"][0]["skipped"] == 1
        (Path(log_dir) / "meta.properties").unlink()
        broken = next(run for run in runs if run["exit_code"] == 1)

        assert "is not a log dir" in broken["error"]
        assert metric(port, "sparklog_job_failures_total", broken["job"]) >= 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


class TestMisuse:
    @pytest.mark.parametrize("text", ["", "log.dir = []", None])
    def test_a_broken_configuration_is_one_line(self, tmp_path: Path, text: str | None) -> None:
        file = tmp_path / "scheduler.toml"
        if text is not None:
            file.write_text(text)
        command = [sys.executable, "-m", "jobs.scheduler", "--config", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)

        assert ended.returncode == 2
        assert ended.stderr.startswith("sparklog scheduler: error: ")
        assert ended.stderr.count("\n") == 1
