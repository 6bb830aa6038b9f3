"""The command line as a whole: exit codes, errors in one line, help, start-up, completion."""

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.cli import main
from sparklog.cli.app import run
from tests.command_line import CommandLine

COMMANDS = ["topic", "produce", "consume", "get-offsets", "delete-records"]


def python(code: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


class TestHelp:
    def test_it_lists_every_command(self) -> None:
        text = CommandLine().done("--help").text

        assert [name for name in COMMANDS if f"\n  {name} " in text] == COMMANDS

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_has_its_own(self, name: str) -> None:
        text = CommandLine().done(name, "-h").text

        assert f"Usage: sparklog {name}" in text
        assert ("--log-dir" in text) == (name != "topic")

    def test_version(self) -> None:
        assert CommandLine().done("--version").text == f"sparklog {version('sparklog')}\n"


class TestMisuse:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "Missing command (see sparklog --help)"),
            (["topics"], "No such command 'topics'. Did you mean 'topic'? (see sparklog --help)"),
            (["topic"], "Missing command (see sparklog topic --help)"),
            (["consume", "--offsets"], "No such option: --offsets"),
            (["--format", "xml"], "Invalid value for '--format': 'xml' is not one of 'text'"),
            (["topic", "list"], "no log dir: give --log-dir DIR or set SPARKLOG_LOG_DIR"),
        ],
    )
    def test_it_is_one_line_and_code_2(self, arguments: list[str], message: str) -> None:
        outcome = CommandLine()(*arguments)

        assert (outcome.code, outcome.out) == (2, b"")
        assert outcome.err.startswith(f"sparklog: error: {message}")
        assert outcome.err.count("\n") == 1


class TestLogDir:
    def test_it_may_stand_before_or_after_the_command(self, flights: CommandLine) -> None:
        after = CommandLine().done("topic", "list", "--log-dir", flights.log_dir)

        assert after == flights.done("topic", "list")

    def test_it_may_come_from_the_environment(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SPARKLOG_LOG_DIR", flights.log_dir)

        assert CommandLine().done("topic", "list").lines == ["flights"]

    @pytest.mark.parametrize("place", ["before", "after"])
    def test_what_is_typed_beats_the_environment(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        monkeypatch.setenv("SPARKLOG_LOG_DIR", "/elsewhere")
        given, command = ["--log-dir", flights.log_dir], ["topic", "list"]
        outcome = CommandLine().done(*(given + command if place == "before" else command + given))

        assert outcome.lines == ["flights"]

    def test_a_directory_that_is_none_is_a_failure(self, tmp_path: Path) -> None:
        outcome = CommandLine(str(tmp_path))("topic", "list")

        assert (outcome.code, "is not a log dir" in outcome.err) == (1, True)

    @pytest.mark.parametrize("place", ["before", "after"])
    def test_storage_settings_are_checked_and_secrets_not_shown(
        self, flights: CommandLine, place: str
    ) -> None:
        setting = ["-S", "AWS_SECRET_ACCESS_KEY:hunter2"]
        command = ["topic", "list"]
        outcome = flights(*(setting + command if place == "before" else command + setting))

        assert (outcome.code, "NAME=VALUE" in outcome.err) == (2, True)
        assert "hunter2" not in outcome.err

    def test_a_storage_setting_that_is_none_is_said(self, flights: CommandLine) -> None:
        outcome = flights("topic", "list", "-S", "AWS_REGIO=x")

        assert (outcome.code, "unknown storage option" in outcome.err) == (2, True)


class TestFailure:
    @pytest.fixture
    def broken(self, sparklog: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
        def fail(_self: AdminClient, _topics: object, **_options: object) -> None:
            raise ZeroDivisionError("over\nzero")

        monkeypatch.setattr(AdminClient, "create_topics", fail)
        return sparklog

    def test_a_bug_is_one_line_as_well(self, broken: CommandLine) -> None:
        outcome = broken("topic", "create", "t")

        assert outcome.code == 1
        assert outcome.err == (
            "sparklog: error: ZeroDivisionError: over zero (--debug shows where)\n"
        )

    def test_debug_shows_the_traceback(self, broken: CommandLine) -> None:
        outcome = broken("topic", "create", "t", "--debug")

        assert outcome.err.startswith("Traceback (most recent call last):")

    def test_interrupted_is_130(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_self: AdminClient) -> list[str]:
            raise KeyboardInterrupt

        monkeypatch.setattr(AdminClient, "list_topics", interrupt)
        outcome = flights("topic", "delete", "t", "--if-exists")

        assert (outcome.code, outcome.err) == (130, "")

    def test_interrupted_while_it_loads_is_130(self) -> None:
        code = (
            "import sys, signal\n"
            "class Slow:\n"
            "    def find_spec(self, name, *_):\n"
            "        if name == 'sparklog.cli.app': signal.raise_signal(signal.SIGINT)\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "sys.meta_path.insert(0, Slow())\n"
            "from sparklog.cli import main\n"
            "main()"
        )
        ended = python(code, "topic", "list")

        assert (ended.returncode, ended.stderr) == (130, "")


class TestPipes:
    def test_a_reader_that_has_had_enough_is_no_error(self, flights: CommandLine) -> None:
        lines = b"".join(b"%0999d\n" % number for number in range(200))
        flights.done("produce", "flights", "-q", stdin=lines)
        code = f"from sparklog.cli.app import run; exit(run(['--log-dir', {flights.log_dir!r}, "
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            ended = subprocess.run(
                [sys.executable, "-c", code + "'consume', 'flights']))"],
                stdout=pipe,
                stderr=subprocess.PIPE,
                check=False,
            )

        assert (ended.returncode, ended.stderr) == (0, b"")


class TestLocale:
    @pytest.mark.parametrize("options", [[], ["--format", "json"]])
    def test_output_is_utf8_in_every_locale(
        self, flights: CommandLine, options: Sequence[str]
    ) -> None:
        AdminClient(flights.log_dir).alter_consumer_group_offsets("grüße", {("flights", 0): 1})
        code = "from sparklog.cli import main; main()"
        ended = python(
            code, "groups", "list", *options, SPARKLOG_LOG_DIR=flights.log_dir,
            LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0",
        )  # fmt: skip

        assert (ended.returncode, ended.stderr) == (0, "")
        assert "grüße" in ended.stdout

    def test_a_program_may_take_the_output_as_text(self, flights: CommandLine) -> None:
        with redirect_stdout(io.StringIO()) as out:
            code = run(["--log-dir", flights.log_dir, "topic", "list"])

        assert (code, out.getvalue()) == (0, "flights\n")


class TestClosed:
    """Python sets a stream to None that the shell has closed (`>&-`, `<&-`)."""

    def test_stdout_fails_before_anything_is_done(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        err = io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", None)
            patch.setattr(sys, "stderr", err)
            code = run(["--log-dir", flights.log_dir, "topic", "delete", "flights"])

        assert code == 1
        assert err.getvalue().startswith("sparklog: error: stdout is closed: ")
        assert err.getvalue().count("\n") == 1
        assert flights.done("topic", "list").lines == ["flights"]

    def test_stderr_takes_no_place_on_stdout(
        self,
        flights: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", None)
            code = run(["--log-dir", flights.log_dir, "consume", "nowhere"])

        assert (code, capsys.readouterr().out) == (1, "")

    @pytest.mark.parametrize(
        ("command", "code_and_lines"),
        [
            (["erase", "--topic", "flights", "--key", "x", "--format", "json"], (0, 1)),
            (["dump-log", "--files", "nowhere"], (1, 1)),
            (["consume", "nowhere", "--debug"], (1, 0)),
        ],
    )
    def test_stderr_is_missed_by_no_command(
        self,
        flights: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
        capsysbinary: pytest.CaptureFixture[bytes],
        command: list[str],
        code_and_lines: tuple[int, int],
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", None)
            ended = run(["--log-dir", flights.log_dir, *command])

        assert (ended, capsysbinary.readouterr().out.count(b"\n")) == code_and_lines

    @pytest.mark.parametrize("command", [["produce", "flights"], ["users", "add", "ada"]])
    def test_stdin_cannot_be_read(
        self,
        flights: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        command: list[str],
    ) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        code = run(["--log-dir", flights.log_dir, *command])

        error = "sparklog: error: cannot read stdin: it is closed\n"
        assert (code, capsys.readouterr()) == (1, ("", error))


class TestMain:
    def test_it_leaves_with_the_exit_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", ["sparklog", "topic", "list"])
        with pytest.raises(SystemExit) as exit_:
            main()

        assert exit_.value.code == 2


class TestStartup:
    @pytest.mark.parametrize(
        ("arguments", "absent"),
        [
            (
                ["--help"],
                ["numpy", "pyarrow", "deltalake", "pyspark", "sparklog.cli.topic"],
            ),
            (["topic", "list"], ["numba", "pandas", "pyspark", "sparklog.cli.records.consume"]),
            (["topic", "describe"], ["numba", "pandas", "pyspark"]),
            (["get-offsets"], ["numba", "pandas", "pyspark"]),
            (["get-offsets", "--time", "earliest"], ["numba", "pandas", "pyspark"]),
            (["verify"], ["pandas", "pyspark"]),
            (["consume", "flights"], ["pandas", "pyspark"]),
            (["consume", "flights", "-f", "%p %T %K %s %h\\n"], ["pandas", "pyspark"]),
            (["consume", "flights", "--format", "json"], ["pandas", "pyspark"]),
        ],
    )
    def test_a_command_loads_only_what_it_needs(
        self, flights: CommandLine, arguments: Sequence[str], absent: Sequence[str]
    ) -> None:
        code = (
            "import sys, contextlib\n"
            "from sparklog.cli import main\n"
            "with contextlib.suppress(SystemExit): main()\n"
            "print('loaded', *sys.modules, file=sys.stderr)"
        )
        ended = python(code, *arguments, SPARKLOG_LOG_DIR=flights.log_dir)

        loaded = ended.stderr.split()
        assert loaded[0] == "loaded"
        assert set(loaded) & set(absent) == set()


class TestCompletion:
    def complete(self, line: str, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        monkeypatch.setenv("_SPARKLOG_COMPLETE", "complete_zsh")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv("SPARKLOG_LOG_DIR", log_dir)
        out = io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(SystemExit):
            run([])
        return [word.strip('"') for word in out.getvalue().replace('":"', '" "').split()]

    def test_topics_come_from_the_log_dir(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "flights" in " ".join(
            self.complete("sparklog consume f", flights.log_dir, monkeypatch)
        )

    def test_only_those_that_begin_so(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = " ".join(self.complete("sparklog consume x", flights.log_dir, monkeypatch))

        assert "flights" not in found

    def test_a_log_dir_on_the_line_counts(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        line = f"sparklog --log-dir {flights.log_dir} topic delete f"

        assert "flights" in " ".join(self.complete(line, "/elsewhere", monkeypatch))

    @pytest.mark.parametrize("log_dir", ["", "/nowhere"])
    def test_without_a_log_dir_there_is_nothing_and_no_error(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = self.complete("sparklog consume f", log_dir, monkeypatch)

        assert "flights" not in " ".join(found)

    @pytest.mark.parametrize(
        ("line", "word"),
        [
            ("sparklog pro", "produce"),
            ("sparklog jobs comp", "compact"),
            ("sparklog jobs compact --re", "--reindex"),
            ("sparklog jobs scheduler --con", "--config"),
            ("sparklog rest --compression-t", "--compression-type"),
        ],
    )
    def test_commands_and_options_are_completed(
        self, line: str, word: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert word in " ".join(self.complete(line, "", monkeypatch))
