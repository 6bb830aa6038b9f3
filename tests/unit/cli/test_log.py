"""`sparklog log`, and commands that read the log dir as of one commit."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.author import acting_for, who
from sparklog.cli import output
from sparklog.errors import CorruptMetadataError
from sparklog.metadata.batch import Planned
from sparklog.metadata.history import read
from sparklog.metadata.history.files import HistoryRecord
from tests.command_line import CommandLine
from tests.logs import append, catalog


@pytest.fixture
def numbers(sparklog: CommandLine) -> CommandLine:
    """Topic `numbers` of one partition: made at version 1, then records 0, 1 and 2."""
    sparklog.done("topic", "create", "numbers", "-p1")
    for number in range(3):
        append(sparklog.log_dir, 0, [number], topic="numbers")
    return sparklog


class TestLog:
    def test_shows_the_newest_commit_first(self, numbers: CommandLine) -> None:
        lines = numbers.done("log", "--limit", "2").text.splitlines()

        assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["4", "3"]
        assert all("PRODUCE" in line and "topics=numbers" in line for line in lines[-2:])

    def test_goes_forward_over_a_range(self, numbers: CommandLine) -> None:
        text = numbers.done("log", "--from", "0", "--to", "1", "--reverse", "--format", "json").text
        found = [json.loads(line) for line in text.splitlines()]

        assert [one["operation"] for one in found] == ["CREATE LOG DIR", "CREATE TOPICS"]
        assert found[1]["parameters"]["topics"] == "numbers"

    def test_says_who_made_a_commit(self, numbers: CommandLine) -> None:
        with acting_for("alice"):
            numbers.done("topic", "delete", "numbers")
        newest, first = numbers.done("log").lines[2], numbers.done("log").lines[-1]
        author = who().partition(" ")[0]

        assert newest.endswith(f" {author} topic delete (alice)  topics=numbers")
        assert first.endswith(f"CREATE LOG DIR  {author} topic create")

    def test_shows_commits_that_name_nobody(
        self, numbers: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Entries of older releases do not."""
        monkeypatch.setattr(Planned, "parameters", lambda *_: {"topics": "numbers"})
        numbers.done("topic", "delete", "numbers")

        assert numbers.done("log", "-n1").lines[-1].split()[3:] == ["TOPICS", "topics=numbers"]

    def test_prints_commits_while_it_reads(
        self, numbers: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a million commits it has some in memory, and a pager shows the first at once."""
        monkeypatch.setattr(output, "BLOCK_ROWS", 2)
        whole, known = numbers.done("log"), read.history

        def lost(*given: Any, **options: Any) -> Iterator[HistoryRecord]:
            yield from islice(known(*given, **options), 3)
            raise CorruptMetadataError("an entry is lost")

        monkeypatch.setattr(read, "history", lost)
        outcome = numbers("log", terminal=True)

        assert outcome.code == 1
        assert outcome.lines == whole.lines[:5]


class TestAsOf:
    def test_consume_ends_where_the_commit_ended(self, numbers: CommandLine) -> None:
        assert numbers.done("consume", "numbers", "--version-as-of", "3").text == "0\n1\n"

    def test_get_offsets_of_a_time(self, numbers: CommandLine) -> None:
        made_ms = catalog(numbers.log_dir).image().stamp.timestamp_ms
        found = numbers.done("get-offsets", "--timestamp-as-of", str(made_ms + 1))

        assert found.text == "numbers:0:3\n"

    def test_topics_made_later_are_not_there(self, numbers: CommandLine) -> None:
        numbers.done("topic", "create", "later")
        outcome = numbers("consume", "later", "--version-as-of", "3")

        assert (outcome.code, "unknown topic 'later'" in outcome.err) == (1, True)

    def test_is_refused_where_the_log_start_has_passed_it(self, numbers: CommandLine) -> None:
        AdminClient(numbers.log_dir).delete_records({("numbers", 0): 1})
        outcome = numbers("consume", "numbers", "--version-as-of", "3")

        assert "its log start offset was 0, and is 1 now" in outcome.err

    def test_is_refused_for_a_topic_that_was_deleted_since(self, numbers: CommandLine) -> None:
        numbers.done("topic", "delete", "numbers")
        outcome = numbers("consume", "numbers", "--version-as-of", "3")

        assert "as of version 3 cannot be read: it was deleted since" in outcome.err

    def test_takes_a_version_or_a_time(self, numbers: CommandLine) -> None:
        both = ("--version-as-of", "3", "--timestamp-as-of", "2013-01-01")

        outcome = numbers("consume", "numbers", *both)
        assert (outcome.code, "give --version-as-of or --timestamp-as-of" in outcome.err) == (
            2,
            True,
        )
