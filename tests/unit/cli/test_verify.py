"""`sparklog verify`; what it finds is tested in tests/unit/maintenance/test_verify.py."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from tests.command_line import CommandLine


def damage(sparklog: CommandLine) -> Path:
    """Turn a byte of a log, and return its path in the log dir."""
    path = min(Path(sparklog.log_dir).glob("__shared/*.log"))
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    return path.relative_to(sparklog.log_dir)


class TestVerify:
    def test_says_that_all_is_sound(self, flights: CommandLine) -> None:
        metadata, line = flights.done("verify").lines

        assert metadata.startswith("__cluster_metadata: sound")
        assert line.startswith("flights: sound (segments 2, bytes ")
        assert line.endswith("damaged 0, repaired 0)")

    def test_names_what_is_damaged_and_fails(self, flights: CommandLine) -> None:
        path = damage(flights)
        outcome = flights("verify", "flights")

        _, problem, summary = outcome.lines
        assert (outcome.code, outcome.err) == (1, "")
        assert problem.startswith(f"{path}: bytes [0, ")
        assert summary.startswith("flights: damaged (")

    def test_quiet_tells_problems_only(self, flights: CommandLine) -> None:
        assert flights.done("verify", "-q").text == ""
        damage(flights)

        assert len(flights("verify", "-q").lines) == 1

    def test_repair_tells_what_is_lost(self, flights: CommandLine) -> None:
        damage(flights)
        lines = flights.done("verify", "--repair", "--records", "--topic", "flights").lines

        assert "flights-0: offsets [0, 3) are lost" in lines
        assert flights.done("verify").lines[-1].startswith("flights: sound")

    def test_json_is_a_line_a_topic(self, flights: CommandLine) -> None:
        flights.done("topic", "create", "other")
        found = flights.done("verify", "--format", "json").json

        assert [row["topic"] for row in found] == ["__cluster_metadata", "flights", "other"]
        assert [row["problems"] for row in found] == [[], [], []]

    @pytest.mark.parametrize("options", [[], ["--format", "json"]])
    def test_a_dry_run_reads_nothing(self, flights: CommandLine, options: list[str]) -> None:
        damage(flights)
        text = flights.done("verify", "--dry-run", *options).text

        assert ("flights: partition 0, segments 1" in text) == (not options)

    def test_a_dry_run_names_the_metadata_log(self, flights: CommandLine) -> None:
        assert flights.done("verify", "--dry-run").lines[0] == "__cluster_metadata: metadata log"

    def test_a_damaged_entry_is_told(self, flights: CommandLine) -> None:
        entry = max(Path(flights.log_dir).glob("__cluster_metadata/_delta_log/*.json"))
        entry.write_bytes(entry.read_bytes()[:-9])
        outcome = flights("verify")

        assert outcome.code == 1
        assert [line.count(entry.name) for line in outcome.lines] == [1, 0]

    def test_an_unknown_topic_is_an_error(self, flights: CommandLine) -> None:
        outcome = flights("verify", "fligths")

        assert outcome.code == 1
        assert "did you mean flights?" in outcome.err

    def test_no_topics_are_sound(self, flights: CommandLine) -> None:
        flights.done("topic", "delete", "flights", "-q")

        (line,) = flights.done("verify").lines

        assert line.startswith("__cluster_metadata: sound")


class TestNoLogDir:
    def test_a_missing_or_an_empty_directory_is_told_how_to_make_one(self, tmp_path: Path) -> None:
        for path in (tmp_path, tmp_path / "none"):
            outcome = CommandLine(str(path))("verify")

            assert (outcome.code, outcome.text) == (1, "")
            assert "is not a log dir: it has no meta.properties" in outcome.err
            assert "`sparklog topic create`" in outcome.err

    def test_of_other_files_is_not_told_that(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.doc").touch()
        outcome = CommandLine(str(tmp_path))("verify")

        assert (outcome.code, outcome.text) == (1, "")
        assert "in a new or an empty directory" in outcome.err
        assert "topic create" not in outcome.err

    def test_that_was_not_made_to_the_end_is_told_how_to_make_one(self, tmp_path: Path) -> None:
        AdminClient(tmp_path).create_log_dir()
        (tmp_path / "meta.properties").unlink()
        outcome = CommandLine(str(tmp_path))("verify")

        assert (outcome.code, outcome.text) == (1, "")
        assert "`sparklog topic create`" in outcome.err
        assert CommandLine(str(tmp_path))("topic", "create", "t").code == 0

    def test_a_file_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.doc").touch()
        outcome = CommandLine(str(tmp_path / "thesis.doc"))("verify")

        assert (outcome.code, outcome.text) == (1, "")
        assert "thesis.doc: Not a directory" in outcome.err


class TestMetaProperties:
    def verified(self, flights: CommandLine, *options: str) -> str:
        """Verify what is no longer sound; return the problem, which is the only one."""
        outcome = flights("verify", *options)
        problem, summary = outcome.lines

        assert (outcome.code, outcome.err) == (1, "")
        assert summary == "__cluster_metadata: damaged (damaged 1, repaired 0)"
        return problem

    @pytest.mark.parametrize("options", [[], ["--repair"]])
    def test_that_is_lost_is_damage(self, flights: CommandLine, options: list[str]) -> None:
        Path(flights.log_dir, "meta.properties").unlink()
        problem = self.verified(flights, *options)

        assert "it has no meta.properties" in problem
        assert "put the same file back" in problem

    def test_that_is_empty_is_damage(self, flights: CommandLine) -> None:
        Path(flights.log_dir, "meta.properties").write_bytes(b"")

        assert "meta.properties in " in self.verified(flights)

    def test_of_a_newer_release_is_not_judged(self, flights: CommandLine) -> None:
        Path(flights.log_dir, "meta.properties").write_bytes(b"version=2\n")
        outcome = flights("verify", "--repair")

        assert (outcome.code, outcome.text) == (1, "")
        assert "upgrade sparklog" in outcome.err
