"""`sparklog backup`."""

import pytest

from tests.command_line import CommandLine


def test_begins_shows_and_ends(flights: CommandLine) -> None:
    begun = flights.done("backup", "begin", "nightly", "--for", "12h").text
    (shown,) = flights.done("backup", "list", "--format", "json").json
    told = flights.done("log", "-n1").lines[-1]
    ended = flights.done("backup", "end", "nightly").text

    assert begun.startswith("Backup nightly of version 2: its files stay until 20")
    assert (shown["name"], shown["version"]) == ("nightly", 2)
    assert shown["expires_ms"] - shown["version_ms"] >= 12 * 3_600_000
    assert "BEGIN BACKUP" in told
    assert "name=nightly version=2" in told
    assert ended == "Ended backup nightly.\n"
    assert flights.done("backup", "list", "--format", "json").json == []


def test_is_listed_as_a_table(flights: CommandLine) -> None:
    flights.done("backup", "begin", "nightly")

    assert "nightly" in flights.done("backup", "list").text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["begin", "a", "--for", "soon"], 2, "--for 'soon': allowed is a time such as 30m"),
        (["begin", "a", "--for", "0s"], 2, "--for '0s': allowed"),
        (["begin", "a/b"], 2, "name 'a/b': allowed are 1 to 100"),
        (["end", "a"], 1, "there is no backup 'a'"),
    ],
)
def test_refuses(flights: CommandLine, arguments: list[str], code: int, message: str) -> None:
    outcome = flights("backup", *arguments)

    assert (outcome.code, message in outcome.err) == (code, True)
