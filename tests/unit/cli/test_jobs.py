"""`sparklog jobs`: every job of the registry with its options. No job here starts a JVM."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sparklog.cli.app import run
from sparklog.cli.job_commands import JobArguments, print_report, spark_fleet
from sparklog.cli.jobs import NAMES
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import Job, Outcome
from sparklog.maintenance.registry import JOBS, ScheduledJob
from sparklog.maintenance.runner import StepReport
from sparklog.spark.jobs import scheduler as spark_scheduler
from sparklog.spark.jobs.scheduler_config import SchedulerConfig
from tests.broker_files import batch, write_segment
from tests.command_line import CommandLine

ROOT = Path(__file__).parents[3]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run in this process."""
    monkeypatch.setattr("sparklog.cli.job_commands.spark_fleet", lambda *_: LocalFleet())


class TestNames:
    def test_are_those_of_the_registry_the_import_and_the_scheduler(self) -> None:
        text = CommandLine().done("jobs", "--help").text
        names = [*JOBS, "erase", "import_log", "scheduler"]

        assert [name for name in names if f" {name} " not in text] == []
        assert sorted(names) == sorted(NAMES)

    def test_have_a_script_each_in_a_checkout(self) -> None:
        scripts = sorted(path.stem for path in (ROOT / "jobs").glob("[a-z]*.py"))

        assert scripts == sorted([*JOBS, "erase", "import_log", "scheduler"])

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ([], "Missing command (see sparklog jobs --help)"),
            (["verfy"], "No such command 'verfy'. Did you mean 'verify'?"),
            (["job_commands"], "No such command 'job_commands'"),
        ],
    )
    def test_that_are_none_are_misuse(self, arguments: list[str], told: str) -> None:
        outcome = CommandLine("log")("jobs", *arguments)

        assert outcome.code == 2
        assert told in outcome.err

    def test_that_are_none_are_misuse_without_the_extra_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyspark", None)
        outcome = CommandLine("log")("jobs", "verfy")

        assert outcome.code == 2
        assert "No such command 'verfy'. Did you mean 'verify'?" in outcome.err


class TestJob:
    def test_has_nothing_to_do(self, flights: CommandLine) -> None:
        outcome = flights("jobs", "merge-segments", "--topic", "flights", "--dry-run")

        assert (outcome.code, outcome.out, outcome.err) == (3, b"", "")

    def test_tells_a_person_that_it_has_nothing_to_do(self, flights: CommandLine) -> None:
        outcome = flights("jobs", "retention", "--format", "text")

        assert (outcome.code, outcome.text) == (3, "retention: nothing to do\n")

    def test_prints_json_lines_unless_a_person_looks_on(self, flights: CommandLine) -> None:
        plain = flights("jobs", "verify", "--dry-run")
        shown = flights("jobs", "verify", "--dry-run", terminal=True)

        assert (plain.code, shown.code) == (0, 0)
        report = plain.json[-1]
        assert (report["job"], report["topic"], len(report["plan"])) == ("verify", "flights", 2)
        assert "verify flights: would do" in shown.text

    def test_takes_options_before_and_behind_its_name(self, flights: CommandLine) -> None:
        both = flights("--format", "text", "jobs", "retention", "--topic", "flights", "-q")

        assert both.text == "retention: nothing to do\n"

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (["--topic", "nothing"], 1, "unknown topic 'nothing'"),
            (["--nothing"], 2, "No such option: --nothing"),
            (["-S", "colour"], 2, "NAME=VALUE"),
        ],
    )
    def test_says_in_a_line_what_it_cannot_do(
        self, flights: CommandLine, arguments: list[str], code: int, told: str
    ) -> None:
        outcome = flights("jobs", "retention", *arguments)

        assert (outcome.code, outcome.out) == (code, b"")
        assert outcome.err.startswith("sparklog: error: ")
        assert told in outcome.err

    @pytest.mark.parametrize("job", JOBS.values())
    def test_shows_its_own_options(self, job: ScheduledJob) -> None:
        text = CommandLine().done("jobs", job.name, "--help").text

        names = [name.replace("_", "-") for name in ("topic", "dry_run", *job.own)]
        assert [name for name in names if f"--{name}" not in text] == []

    def test_gets_its_own_options(self, flights: CommandLine, monkeypatch: Any) -> None:
        seen: list[Mapping[str, Any]] = []

        def job(context: object, topics: Sequence[str], options: Mapping[str, Any]) -> list[Any]:
            del context
            seen.append({"topics": [*topics], **options})
            return []

        one = JOBS["verify"]._replace(job=cast_job(job))
        monkeypatch.setattr("sparklog.cli.job_commands.JOBS", {"verify": one})

        assert flights("jobs", "verify", "--records", "--topic", "a", "--topic", "b").code == 3
        assert seen == [{"topics": ["a", "b"], "repair": False, "records": True, "table": False}]

    def test_is_a_script_too(self, flights: CommandLine) -> None:
        command = [sys.executable, "jobs/retention.py", "--log-dir", flights.log_dir]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)

        assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def cast_job(job: Any) -> Job:
    """A function as a job."""
    return job  # type: ignore[no-any-return] # it is called as one


class TestReport:
    def test_tells_counts_notes_and_problems(self, capsys: pytest.CaptureFixture[str]) -> None:
        outcome = Outcome(counts={"segments": 1234}, notes=["a note"], problems=["a problem"])
        print_report(
            StepReport(job="compact", topic="t", rows=(), outcome=outcome, duration_ms=1500)
        )

        first, *more = capsys.readouterr().out.splitlines()
        assert first == "compact t: segments 1,234 (1.5 s)"
        assert more == ["  a note", "  a problem"]

    def test_without_counts_says_done(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_report(StepReport(job="vacuum", topic="t", rows=(), outcome=Outcome()))

        assert capsys.readouterr().out == "vacuum t: done (0.0 s)\n"

    def test_a_plan_may_have_rows_of_several_kinds(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Those of `abort_transactions` have: an id that is forgotten is not aborted."""
        rows = [{"abort": "x", "age_s": 1}, {"forget": "y", "age_s": 2}]
        print_report(StepReport(job="job", topic="t", rows=rows))

        assert capsys.readouterr().out.splitlines() == [
            "job t: would do",
            "abort  age_s  forget",
            "x      1      -",
            "-      2      y",
        ]


class TestImport:
    @pytest.mark.usefixtures("here")
    def test_prints_the_rows_of_the_command(self, sparklog: CommandLine, tmp_path: Path) -> None:
        (tmp_path / "broker" / "t-0").mkdir(parents=True)
        write_segment(tmp_path / "broker" / "t-0", 0, batch(0), batch(2))
        outcome = sparklog("jobs", "import_log", tmp_path / "broker")

        assert (outcome.code, [row["topic"] for row in outcome.json]) == (0, ["t"])


class TestSession:
    def test_is_not_started_before_it_is_needed(self) -> None:
        assert spark_fleet("compact", JobArguments()).map(len, [], "nothing") == []

    @pytest.mark.parametrize("job", ["compact", "scheduler", "import_log", "merge-segments"])
    def test_needs_the_extra_before_the_jobs_are_loaded(
        self, monkeypatch: pytest.MonkeyPatch, job: str
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyspark", None)
        monkeypatch.setitem(sys.modules, "sparklog.cli.job_commands", None)
        outcome = CommandLine("log")("jobs", job)

        assert outcome.code == 1
        assert "this needs the module pyspark: pip install 'sparklog[spark]'" in outcome.err

    def test_needs_every_module_of_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "sparklog.spark.jobs.fleet")
        monkeypatch.setitem(sys.modules, "pyspark.sql", None)
        outcome = CommandLine("log")("jobs", "compact")

        assert outcome.code == 1
        assert "pip install 'sparklog[spark]'" in outcome.err

    def test_shows_the_options_of_a_job_without_the_extra(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyspark", None)

        assert "--reindex" in CommandLine().done("jobs", "compact", "--help").text


class TestScheduler:
    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[SchedulerConfig]:
        """The configurations that would have been served; each ends with 1."""
        found: list[SchedulerConfig] = []

        def serve(config: SchedulerConfig) -> int:
            found.append(config)
            return 1

        monkeypatch.setattr(spark_scheduler, "serve", serve)
        return found

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "scheduler.toml"
        path.write_text('log.dirs = ["there"]', encoding="utf-8")
        return path

    def test_takes_log_dirs_and_storage(self, started: list[SchedulerConfig], file: Path) -> None:
        options = ["--log-dir", "a", "--log-dir", "b", "-S", "AWS_REGION=x"]
        codes = [
            CommandLine()("jobs", "scheduler", "--config", file, *options, "-q").code,
            CommandLine("c")("-S", "A=1", "jobs", "scheduler", "--config", file).code,
            CommandLine()("jobs", "scheduler", "--config", file, "--format", "json").code,
        ]

        assert codes == [1, 1, 1]
        assert [one.log_dirs for one in started] == [["a", "b"], ["c"], ["there"]]
        assert [one.storage for one in started] == [{"AWS_REGION": "x"}, {"A": "1"}, {}]

    def test_takes_a_configuration_with_a_byte_order_mark(
        self, started: list[SchedulerConfig], file: Path
    ) -> None:
        file.write_text('log.dirs = ["there"]', encoding="utf-8-sig")

        assert CommandLine()("jobs", "scheduler", "--config", file).err == ""
        assert [one.log_dirs for one in started] == [["there"]]

    def test_a_variable_does_not_replace_its_log_dirs(
        self, started: list[SchedulerConfig], file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SPARKLOG_LOG_DIR", "elsewhere")

        assert run(["jobs", "scheduler", "--config", str(file)]) == 1
        assert [one.log_dirs for one in started] == [["there"]]

    @pytest.mark.parametrize("text", ["", "log.dir = []", None])
    def test_a_broken_configuration_is_misuse(self, tmp_path: Path, text: str | None) -> None:
        file = tmp_path / "broken.toml"
        if text is not None:
            file.write_text(text, encoding="utf-8")
        outcome = CommandLine()("jobs", "scheduler", "--config", file)

        assert outcome.code == 2
        assert outcome.err.startswith(f"sparklog: error: --config {file}: ")
