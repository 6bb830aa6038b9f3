"""`sparklog dump-log` prints what Kafka 4.1.1's tool printed of the same files."""

import shutil
from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tests.compat.cases import BROKER, FOLDER, LOG, Case, Printed, cases, expected

CASES = cases()


def dumped(case: Case, folder: Path) -> tuple[Printed, int]:
    """What we print of a case, and the exit code."""
    paths = case.prepared(folder)
    outcome = CommandLine()("dump-log", *case.options, "--files", ",".join(map(str, paths)))
    out = outcome.out.replace(str(folder).encode(), FOLDER.encode())
    failed = outcome.err.startswith("sparklog: error: ")
    complaints = "" if failed else outcome.err.replace(str(folder), FOLDER)
    return Printed(out, complaints, failed), outcome.code


class TestText:
    @pytest.mark.parametrize("name", CASES)
    def test_it_is_what_kafka_prints(self, name: str, tmp_path: Path) -> None:
        found, _ = dumped(CASES[name], tmp_path)

        assert found == expected(name)


class TestExitCode:
    @pytest.mark.parametrize(
        "name", ["deep", "several", "sanity", "markers-without-metadata", "max-bytes", "index-odd"]
    )
    def test_0_for_what_is_sound(self, name: str, tmp_path: Path) -> None:
        assert dumped(CASES[name], tmp_path)[1] == 0

    @pytest.mark.parametrize(
        "name",
        [
            "wrong-crc",
            "torn",
            "unknown",
            "index-offset",
            "time-timestamp",
            "snapshot-crc",
            "size-13",
        ],
    )
    def test_1_for_what_is_not(self, name: str, tmp_path: Path) -> None:
        assert dumped(CASES[name], tmp_path)[1] == 1


class TestFiles:
    def test_an_error_names_file_and_position(self, tmp_path: Path) -> None:
        path = CASES["size-13"].prepared(tmp_path)[0]

        outcome = CommandLine()("dump-log", "--files", path)
        assert outcome.err.startswith(f"sparklog: error: {path}, position 0: Found record size 13 ")

    def test_a_file_that_is_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "00000000000000000000.log"

        outcome = CommandLine()("dump-log", "--files", path)
        assert outcome.code == 1
        assert outcome.text == f"Dumping {path}\n"
        assert str(path.name) in outcome.err

    @pytest.mark.parametrize("name", ["x.log", "1-2.checkpoint", f"{2**63}.log", "x.txnindex"])
    def test_a_name_that_says_no_offset(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / name
        path.write_bytes(b"")

        assert CommandLine()("dump-log", "--files", path).code == 1

    def test_several_options_and_doubled_slashes(self, tmp_path: Path) -> None:
        path = str(CASES["deep"].prepared(tmp_path)[0])
        doubled = path.replace("/", "//") + "/"

        once = CommandLine().done("dump-log", "--files", path)
        twice = CommandLine().done("dump-log", "--files", f"{doubled},", "--files", path)
        assert twice.out == 2 * once.out

    def test_checkpoints(self, tmp_path: Path) -> None:
        source = BROKER / "bootstrap.checkpoint"
        shutil.copy(source, tmp_path / f"{7:020d}-{3:010d}.checkpoint")

        named = CommandLine().done(
            "dump-log", "--files", tmp_path / f"{7:020d}-{3:010d}.checkpoint"
        )
        bootstrap = CommandLine().done("dump-log", "--files", source)
        assert named.lines[1] == "Snapshot end offset: 7, epoch: 3"
        assert bootstrap.lines[1] == "KRaft bootstrap snapshot"
        assert named.lines[2:] == bootstrap.lines[2:]

    def test_a_file_of_more_than_2_gib(self, tmp_path: Path) -> None:
        path = tmp_path / LOG
        with path.open("wb") as file:
            file.truncate(2**31)

        assert (
            "is larger than the maximum allowed" in CommandLine()("dump-log", "--files", path).err
        )


class TestMisuse:
    @pytest.mark.parametrize(
        "options",
        [
            [],
            ["--files", ","],
            ["--files", "x.log", "--format", "json"],
            ["--files", "x.log", "--key-decoder-class", "my.Decoder"],
        ],
    )
    def test_it_is_code_2(self, options: list[str]) -> None:
        assert CommandLine()("dump-log", *options).code == 2

    def test_negative_bytes(self, tmp_path: Path) -> None:
        path = CASES["deep"].prepared(tmp_path)[0]

        assert CommandLine()("dump-log", "--max-bytes", "-1", "--files", path).code == 2


class TestDecoders:
    def test_numbers(self, tmp_path: Path) -> None:
        path = CASES["transactions"].prepared(tmp_path)[0]
        options = ["--key-decoder-class", "LongDecoder", "--skip-record-metadata"]
        options += ["--value-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"]

        lines = CommandLine().done("dump-log", *options, "--files", path).lines
        key = int.from_bytes(b"\0\0\0\5judge"[:8], "big")
        assert f"| key: {key} payload: 65536" in lines

    def test_too_few_bytes(self, tmp_path: Path) -> None:
        path = CASES["deep"].prepared(tmp_path)[0]

        outcome = CommandLine()("dump-log", "--value-decoder-class", "LongDecoder", "--files", path)
        assert "0 bytes where a number of 8 is expected" in outcome.err
