"""`sparklog import` and `sparklog export` as commands."""

import os
from pathlib import Path

import pytest

from sparklog.log.names import uuid7
from tests.broker_files import batch, write_indexes, write_segment
from tests.command_line import CommandLine
from tests.compat.cases import BROKER


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    folder = tmp_path / "broker" / "t-0"
    folder.mkdir(parents=True)
    write_segment(folder, 0, batch(0), batch(2)[:-1])
    return folder.parent


@pytest.fixture
def sparklog(tmp_path: Path) -> CommandLine:
    return CommandLine(str(tmp_path / "log"))


class TestImport:
    def test_a_table_and_what_was_left_out(self, sparklog: CommandLine, broker: Path) -> None:
        outcome = sparklog("import", broker)

        assert outcome.code == 0
        assert outcome.lines[2].split() == ["t", "0", "0", "2", "1", str(len(batch(0)))]
        assert "t-0: 143 bytes behind the last whole batch are left out" in outcome.err.replace(
            str(len(batch(2)) - 1), "143"
        )

    def test_json_and_configs(self, sparklog: CommandLine, broker: Path) -> None:
        options = ["--format", "json", "-q", "--copy", "--no-check", "--config", "retention.ms=7"]
        (row,) = sparklog.done("import", broker, "--topic", "t", *options).json

        assert (row["topic"], row["start"], row["end"]) == ("t", 0, 2)
        assert sparklog.done("consume", "t", "-f", "%o ").text == "0 1 "

    def test_quiet_is_quiet(self, sparklog: CommandLine, broker: Path) -> None:
        assert sparklog.done("import", broker, "-q").text == ""

    def test_refused_partitions_are_told(self, sparklog: CommandLine, broker: Path) -> None:
        write_segment(broker / "t-0", 0, b"x" * 50)
        outcome = sparklog("import", broker)

        assert outcome.code == 1
        assert "t-0 was not imported: " in outcome.err

    def test_a_bar_is_shown_to_a_person_and_nobody_else(
        self, sparklog: CommandLine, broker: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TERM", "xterm")
        quiet = sparklog("import", broker, "-q", terminal=True)
        shown = sparklog("import", broker, terminal=True)

        assert quiet.err == ""
        assert "import" in shown.err
        assert "1/1" in shown.err

    def test_committed_offsets(self, sparklog: CommandLine) -> None:
        rows = sparklog.done("import", BROKER, "--consumer-offsets", "--format", "json").json
        text = sparklog.done("import", BROKER, "--consumer-offsets")

        assert [(row["group"], row["offset"]) for row in rows] == [
            ("group-classic", 7),
            ("group-consumer", 7),
        ]
        assert "group-classic" in text.text

    def test_committed_offsets_of_a_group_as_spark_takes_them(self, sparklog: CommandLine) -> None:
        options = ["--consumer-offsets", "--group", "group-classic", "--spark"]

        assert sparklog.done("import", BROKER, *options).json == [{"grouped": {"0": 7}}]
        outcome = sparklog("import", BROKER, *options, "--topic", "other")
        assert (outcome.code, "give --group; found: none" in outcome.err) == (2, True)

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (["--consumer-offsets", "--spark"], "found: group-classic, group-consumer"),
            (["--spark"], "go with --consumer-offsets"),
            (["--group", "g"], "go with --consumer-offsets"),
        ],
    )
    def test_of_no_one_group_are_refused(
        self, sparklog: CommandLine, options: list[str], why: str
    ) -> None:
        outcome = sparklog("import", BROKER, *options)

        assert (outcome.code, why in outcome.err) == (2, True), outcome.err


class TestExport:
    def test_to_a_directory(self, sparklog: CommandLine, broker: Path, tmp_path: Path) -> None:
        sparklog("import", broker)
        text = sparklog.done("export", "--to", tmp_path / "out", "--link").text
        (row,) = sparklog.done("export", "--to", tmp_path / "out2", "--format", "json").json

        assert "exported" in text
        assert (row["end"], row["segments"]) == (2, 1)
        assert (tmp_path / "out" / "t-0" / f"{0:020d}.log").read_bytes() == batch(0)

    def test_into_a_broker(self, sparklog: CommandLine, broker: Path, tmp_path: Path) -> None:
        sparklog("import", broker)
        sparklog.done("export", "--to", tmp_path / "out", "-q")
        (tmp_path / "out" / "meta.properties").write_text("version=1\n")

        sparklog.done("export", "--into", tmp_path / "out", "--replace", "--topic", "t", "-q")
        assert sparklog("export", "--into", tmp_path / "out").code == 1

    def test_misuse(self, sparklog: CommandLine) -> None:
        assert sparklog("export").code == 2
        assert sparklog("export", "--to", "a", "--into", "b").code == 2


class TestDumpLog:
    def test_of_a_shared_segment(self, sparklog: CommandLine, tmp_path: Path) -> None:
        path = tmp_path / f"{uuid7(0, bytes(10))}.log"
        path.write_bytes(batch(0) + batch(0, 3) + batch(3))
        outcome = sparklog("dump-log", "--files", path, "--deep-iteration")

        assert (outcome.code, outcome.err) == (0, "")
        assert "Shared segment: offsets are the file's own" in outcome.lines[1]
        offsets = [line.split()[2] for line in outcome.lines if line.startswith("| offset:")]
        assert offsets == ["0", "1", "0", "1", "2", "3", "4"]

    @pytest.mark.parametrize("checks", [[], ["--index-sanity-check"], ["--verify-index-only"]])
    def test_of_a_path_that_is_not_utf_8(
        self, sparklog: CommandLine, tmp_path: Path, checks: list[str]
    ) -> None:
        (folder := tmp_path / "\udcff").mkdir()  # as Python reads the byte
        write_indexes(write_segment(folder, 0, batch(0)))
        log = folder / "0.\udcff.log"
        log.write_bytes(batch(0) + b"?")
        files = ",".join(str(path) for path in (log, *folder.glob("*0.*index")))
        outcome = sparklog("dump-log", "--files", files, *checks)

        assert outcome.out.startswith(b"Dumping %s\n" % os.fsencode(log))
        assert b"Found 1 invalid bytes at the end of 0.\xff.log\n" in outcome.out
        assert outcome.out.count(b"Dumping ") == 3
        assert outcome.err == ""

    def test_a_negative_size_is_wrong_usage(self, sparklog: CommandLine, tmp_path: Path) -> None:
        outcome = sparklog("dump-log", "--files", tmp_path / "0.log", "--max-bytes", -1)

        assert outcome.code == 2
        assert "--max-bytes" in outcome.err
