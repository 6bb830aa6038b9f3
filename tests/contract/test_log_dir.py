"""A whole log dir over every kind of storage: the command line, jobs under leases, vacuum."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import ManualClock, SystemClock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Job, JobContext
from sparklog.maintenance.leases import Leases
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO, JobRun, StepReport
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.command_line import CommandLine
from tests.s3 import S3LogDir

YEAR_MS = 365 * 24 * 3_600_000


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def log_dir(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address; what leads there is in the environment."""
    if request.param == "local":
        return str(tmp_path)
    place: S3LogDir = request.getfixturevalue("s3_log_dir")
    for name, value in place.options.items():
        monkeypatch.setenv(name, value)
    return place.uri


@pytest.fixture
def sparklog(log_dir: str) -> CommandLine:
    return CommandLine(log_dir)


def done(job: Job, log_dir: str, after_ms: int = 0, **options: Any) -> tuple[int, list[StepReport]]:
    """Run a job under leases, some time from now; the exit code and the reports."""
    clock = ManualClock(SystemClock().now_ms() + after_ms)
    context = JobContext(Catalog(open_files(log_dir), clock), LocalFleet())
    reports: list[StepReport] = []
    one = JobRun(name="job", job=job, options=options, leases=Leases(context))
    return one.run(context, reports.append), reports


class TestCommandLine:
    def test_from_the_first_topic_to_the_last_offset(self, sparklog: CommandLine) -> None:
        sparklog.done("topic", "create", "t", "--partitions", 2)
        sparklog.done("produce", "t", "-K:", "-p1", stdin=b"a:1\nb:2\n")
        read = sparklog.done("consume", "t", "-f", r"%p %o %k=%s\n").lines
        ends = sparklog.done("get-offsets", "t").lines

        assert read == ["1 0 a=1", "1 1 b=2"]
        assert ends == ["t:0:0", "t:1:2"]
        assert sparklog.done("verify").lines[1].startswith("t: sound")

    def test_by_time(self, sparklog: CommandLine) -> None:
        sparklog.done("topic", "create", "t")
        sparklog.done("produce", "t", stdin=b"1\n2\n")

        assert sparklog.done("get-offsets", "t", "--time", 0).lines == ["t:0:0"]
        assert sparklog.done("get-offsets", "t", "--time", "max-timestamp").lines == ["t:0:0"]


class TestJobs:
    def test_compact_drops_what_was_overwritten(self, sparklog: CommandLine) -> None:
        sparklog.done("topic", "create", "t", "--config", "cleanup.policy=compact")
        for value in b"1234":
            sparklog.done("produce", "t", "-K:", stdin=b"a:%c\n" % value)
        code, (report,) = done(compact, sparklog.log_dir, force=True, reindex=False)

        assert (code, report.is_failed) == (DONE, False)
        assert sparklog.done("consume", "t", "-f", "%s\n").lines == ["3", "4"]

    def test_vacuum_takes_what_retention_has_removed(self, sparklog: CommandLine) -> None:
        sparklog.done("topic", "create", "t")
        sparklog.done("produce", "t", stdin=b"1\n")
        sparklog.done("produce", "t", stdin=b"2\n")
        before = logs(sparklog.log_dir)
        removed, _ = done(retention, sparklog.log_dir, YEAR_MS)
        taken, *_ = done(vacuum, sparklog.log_dir, 2 * YEAR_MS)

        assert (len(before), removed, taken) == (2, DONE, DONE)
        assert logs(sparklog.log_dir) == []
        assert sparklog.done("get-offsets", "t").lines == ["t:0:2"]
        assert done(retention, sparklog.log_dir, 2 * YEAR_MS)[0] == NOTHING_TO_DO


def logs(log_dir: str) -> list[str]:
    files = open_files(log_dir)
    return [stat.path for stat in files.list("", recursive=True) if stat.path.endswith(".log")]
