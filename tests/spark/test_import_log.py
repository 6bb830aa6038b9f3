"""An import whose partitions are Spark's tasks: the same log, output and exit codes as without."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sparklog.cli import app as cli
from tests.broker_files import batch, write_segment
from tests.command_line import CommandLine
from tests.compat.cases import BROKER
from tests.logs import catalog, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Topic `t` of three partitions, of which the last is damaged, and `u` of one, cut short."""
    folder = tmp_path / "broker"
    for number in range(3):
        (folder / f"t-{number}").mkdir(parents=True)
        write_segment(folder / f"t-{number}", 0, batch(0), batch(2))
        write_segment(folder / f"t-{number}", 4, batch(4))
    write_segment(folder / "t-2", 0, b"x" * 50)
    (folder / "u-0").mkdir()
    write_segment(folder / "u-0", 0, batch(0), batch(2)[:-1])
    return folder


def run(log_dir: Path, *arguments: object) -> int:
    return cli.run(["jobs", "import_log", *map(str, arguments), "--log-dir", str(log_dir)])


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("spark")
class TestImport:
    def test_is_the_commands(self, broker: Path, tmp_path: Path, capsys: Any) -> None:
        code = run(tmp_path / "ours", broker)
        ours = capsys.readouterr()
        theirs = CommandLine(str(tmp_path / "theirs"))("import", broker, "--format", "json")

        assert (code, lines(ours.out)) == (theirs.code, theirs.json) == (1, theirs.json)
        assert ours.err == theirs.err
        for topic in ("t", "u"):
            assert rows(tmp_path / "ours", topic) == rows(tmp_path / "theirs", topic)

    def test_takes_the_commands_options(self, broker: Path, tmp_path: Path, capsys: Any) -> None:
        options = ["--topic", "u", "--copy", "--no-check", "--config", "retention.ms=7"]
        code = run(tmp_path / "log", broker, *options, "--quiet", "--format", "text")

        assert (code, capsys.readouterr()) == (0, ("", ""))
        assert catalog(tmp_path / "log").topic("u").configs["retention.ms"] == "7"
        assert run(tmp_path / "log", BROKER, "--consumer-offsets") == 0
        assert [row["offset"] for row in lines(capsys.readouterr().out)] == [7, 7]

    def test_goes_on_where_it_ended(self, broker: Path, tmp_path: Path, capsys: Any) -> None:
        log_dir = tmp_path / "log"
        run(log_dir, broker, "--topic", "t")
        write_segment(broker / "t-1", 4, batch(4), batch(6))
        capsys.readouterr()
        run(log_dir, broker, "--topic", "t")

        found = [
            (row["partition"], row["start"], row["end"]) for row in lines(capsys.readouterr().out)
        ]
        assert found == [(0, 6, 6), (1, 6, 8)]

    def test_shows_a_bar_to_a_person(
        self, broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        run(tmp_path / "log", broker, "--format", "text")
        shown = capsys.readouterr()

        assert "import" in shown.err
        assert "4/4" in shown.err
        assert "imported" in shown.out

    def test_that_fails_says_why(self, tmp_path: Path, capsys: Any) -> None:
        codes = [
            run(tmp_path / "log", tmp_path / "nothing"),
            run(tmp_path / "log", tmp_path, "--config", "retention.ms"),
        ]

        assert codes == [1, 2]
        error, misuse = capsys.readouterr().err.splitlines()
        assert error.startswith("sparklog: error: ")
        expected = "sparklog: error: --config 'retention.ms': allowed is NAME=VALUE"
        assert misuse == expected
