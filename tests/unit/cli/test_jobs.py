"""`sparklog jobs`: processes of their own. No job here has a task to run, so none starts a JVM."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from sparklog.cli import jobs
from sparklog.spark.jobs import registry
from tests.command_line import CommandLine


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that would have been run; each ends with 3."""
    found: list[list[str]] = []

    def run(command: list[str]) -> int:
        found.append(command)
        return 3

    monkeypatch.setattr(jobs, "run_process", run)
    return found


class TestJobs:
    def test_a_job_runs_as_a_process(
        self, flights: CommandLine, capfd: pytest.CaptureFixture[str]
    ) -> None:
        outcome = flights("jobs", "merge-segments", "--topic", "flights", "--seal", "--dry-run")

        assert (outcome.code, outcome.err) == (3, "")
        assert capfd.readouterr() == ("", "")

    def test_a_person_is_told_of_nothing(
        self, flights: CommandLine, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert flights("jobs", "retention", "--format", "text").code == 3

        assert capfd.readouterr().out == "retention: nothing to do\n"

    def test_its_output_is_the_jobs(
        self, flights: CommandLine, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert flights("jobs", "verify", "--dry-run").code == 0

        report = json.loads(capfd.readouterr().out.splitlines()[-1])
        assert (report["job"], report["topic"], len(report["plan"])) == ("verify", "flights", 2)

    def test_its_errors_are_the_jobs(
        self, flights: CommandLine, capfd: pytest.CaptureFixture[str]
    ) -> None:
        codes = [
            flights("jobs", "retention", *arguments).code
            for arguments in (["--topic", "nothing"], ["--nothing"])
        ]

        assert codes == [1, 2]
        assert "unknown topic 'nothing'" in capfd.readouterr().err

    def test_options_are_handed_on_as_they_are(self, commands: list[list[str]]) -> None:
        given = ["-S", "A=1", "--format", "json", "-q"]
        own = ["--help", "-S", "B=2"]
        outcome = CommandLine("log")(*given, "jobs", "compact", *own)

        before = ["--log-dir", "log", "-S", "A=1", "--format", "json", "--quiet"]
        module = [sys.executable, "-m", "sparklog.spark.jobs.compact"]
        assert outcome.code == 3
        assert commands == [[*module, *before, *own]]

    @pytest.mark.parametrize("option", ["--help", "-h"])
    def test_help_names_the_jobs(self, option: str) -> None:
        assert "merge_segments" in CommandLine().done("jobs", option).text

    def test_nothing_is_added_where_nothing_stands_before(self, commands: list[list[str]]) -> None:
        assert CommandLine()("jobs", "vacuum", "--topic", "t").code == 3

        assert commands[0][2:] == ["sparklog.spark.jobs.vacuum", "--topic", "t"]

    @pytest.mark.parametrize("arguments", [[], ["nothing"], ["command"]])
    def test_no_job_of_that_name_is_misuse(self, arguments: list[str]) -> None:
        outcome = CommandLine("log")("jobs", *arguments)

        assert outcome.code == 2
        assert "; there are build_index, compact, import_log, merge_segments" in outcome.err


class TestNames:
    def test_are_those_of_all_jobs_the_import_and_the_scheduler(self) -> None:
        """The command line is none of Spark's and cannot ask its registry."""
        assert list(jobs.JOBS) == sorted([*registry.JOBS, "import_log", "scheduler"])


class TestRunProcess:
    def test_a_signal_is_told_as_a_shell_tells_it(self) -> None:
        kill = "import os; os.kill(os.getpid(), 9)"

        assert jobs.run_process([sys.executable, "-c", kill]) == 128 + signal.SIGKILL

    def test_an_interrupt_leaves_the_end_to_the_job(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Interrupted(subprocess.Popen[bytes]):
            is_new = True

            def wait(self, timeout: float | None = None) -> Any:
                if self.is_new:
                    self.is_new = False
                    raise KeyboardInterrupt
                return super().wait(timeout)

        monkeypatch.setattr(subprocess, "Popen", Interrupted)
        assert jobs.run_process([sys.executable, "-c", "raise SystemExit(7)"]) == 7
