"""`sparklog erase`: its keys, and what it says."""

from pathlib import Path

import pytest

from sparklog.fleet import LocalFleet
from tests.command_line import CommandLine
from tests.logs import append, new_topic, rows


@pytest.fixture
def sparklog(tmp_path: Path) -> CommandLine:
    """The commands on a log dir with three records, two of them hers."""
    log_dir = new_topic(tmp_path / "log", partitions=1)
    append(log_dir, 0, ["a", "b", "c"], keys=["alice", "bob", "alice"])
    return CommandLine(log_dir)


def offsets(sparklog: CommandLine) -> list[int]:
    return [row.offset for row in rows(str(sparklog.log_dir)).get(0, [])]


class TestErase:
    def test_says_what_is_gone(self, sparklog: CommandLine) -> None:
        text = sparklog.done("erase", "--topic", "t", "--key", "alice").text

        assert offsets(sparklog) == [1]
        assert text.startswith("t: 2 records removed from 1 segment, 0 rows from 0 files")
        assert "partition 0: 2 records" in text
        assert "vacuum can delete the last file from 20" in text
        assert "not reached: exports, backups" in text

    @pytest.mark.parametrize(
        "delay",
        ["file.delete.delay.ms", "sparklog.reader.grace.ms", "sparklog.orphan.retention.ms"],
    )
    def test_a_delay_may_end_after_the_last_date(self, sparklog: CommandLine, delay: str) -> None:
        sparklog.done("topic", "alter", "t", "--config", f"{delay}={2**63 - 1}")
        text = sparklog.done("erase", "--topic", "t", "--key", "alice").text
        row = sparklog.done("erase", "--topic", "t", "--key", "bob", "--format", "json").json[0]

        assert "vacuum can delete the last file only after the year 9999" in text
        assert row["files_gone_ms"] == 2**63 - 1

    def test_a_dry_run_says_what_would_go(self, sparklog: CommandLine) -> None:
        text = sparklog.done("erase", "--topic", "t", "--key", "alice", "--dry-run").text

        assert text.startswith("t: 2 records would be removed")
        assert "vacuum" not in text
        assert offsets(sparklog) == [0, 1, 2]

    def test_keys_come_from_options_and_a_file(self, sparklog: CommandLine, tmp_path: Path) -> None:
        (tmp_path / "keys").write_bytes(b"alice\nnobody\n")
        row = sparklog.done(
            *("erase", "--topic", "t", "--key", "bob", "--key-file", tmp_path / "keys"),
            *("--format", "json"),
        ).json[0]

        assert (row["keys"], row["records"], row["partitions"]) == (3, 3, {"0": 3})
        assert offsets(sparklog) == []

    def test_an_empty_line_of_the_file_is_no_key(
        self, sparklog: CommandLine, tmp_path: Path
    ) -> None:
        append(Path(sparklog.log_dir), 0, ["d"], keys=[""])
        (tmp_path / "keys").write_bytes(b"alice\n\nbob\r\n\n")
        command = ("erase", "--topic", "t", "--key-file", tmp_path / "keys", "--format", "json")
        row = sparklog.done(*command).json[0]

        assert (row["keys"], row["records"]) == (2, 3)
        assert offsets(sparklog) == [3]

    def test_a_key_may_have_bytes_that_are_not_utf_8(self, sparklog: CommandLine) -> None:
        key = b"\xff\xfe".decode(errors="surrogateescape")  # as Python reads an argument
        sparklog.done("produce", "t", "-k", key, stdin=b"d\n")
        row = sparklog.done("erase", "--topic", "t", "--key", key, "--format", "json").json[0]

        assert row["records"] == 1

    def test_a_bom_belongs_to_no_key(self, sparklog: CommandLine, tmp_path: Path) -> None:
        (tmp_path / "keys").write_bytes(b"\xef\xbb\xbfalice\n")
        sparklog.done("erase", "--topic", "t", "--key-file", tmp_path / "keys")

        assert offsets(sparklog) == [1]

    def test_a_return_within_a_line_belongs_to_its_key(
        self, sparklog: CommandLine, tmp_path: Path
    ) -> None:
        (tmp_path / "keys").write_bytes(b"alice\rbob\n")
        command = ("erase", "--topic", "t", "--key-file", tmp_path / "keys", "--format", "json")
        row = sparklog.done(*command, "--dry-run").json[0]

        assert (row["keys"], row["records"]) == (1, 0)

    def test_quiet_says_nothing(self, sparklog: CommandLine) -> None:
        assert sparklog.done("erase", "--topic", "t", "--key", "bob", "--quiet").text == ""

    def test_without_a_key_is_misuse(self, sparklog: CommandLine) -> None:
        assert "no key" in sparklog("erase", "--topic", "t").err

    def test_is_a_job_of_spark_too(
        self, sparklog: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.cli.job_commands.spark_fleet", lambda *_: LocalFleet())
        outcome = sparklog("jobs", "erase", "--topic", "t", "--key", "alice")

        assert (outcome.code, outcome.json[0]["records"]) == (0, 2)
        assert offsets(sparklog) == [1]

    @pytest.mark.parametrize("options", [[], ["--dry-run"]])
    def test_as_a_job_says_by_its_exit_code_that_it_has_nothing_to_do(
        self, sparklog: CommandLine, monkeypatch: pytest.MonkeyPatch, options: list[str]
    ) -> None:
        monkeypatch.setattr("sparklog.cli.job_commands.spark_fleet", lambda *_: LocalFleet())
        call = ("jobs", "erase", "--topic", "t", *options, "--key")

        assert sparklog(*call, "nobody").code == 3
        assert sparklog(*call, "alice").code == 0
