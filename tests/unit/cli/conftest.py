"""A command line over a new log dir, and over one with a topic."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, CommittedOffset
from tests.command_line import CommandLine


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the tests from the log dir and the terminal of whoever runs them."""
    for name in ("SPARKLOG_LOG_DIR", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def sparklog(tmp_path: Path) -> CommandLine:
    return CommandLine(str(tmp_path / "log"))


@pytest.fixture
def flights(sparklog: CommandLine) -> CommandLine:
    """With the topic `flights`: two partitions, three records in the first, one in the second."""
    sparklog.done("topic", "create", "flights", "-p2", "--config", "retention.ms=-1")
    rows = (
        b"""
        {"partition": 0, "timestamp": 1000, "key": "UA", "value": "one"}
        {"partition": 0, "timestamp": 2000, "key": null, "value": ""}
        {"partition": 0, "timestamp": 3000, "key": "", "value": null}
        {"partition": 1, "timestamp": 2500, "key": "AA", "value": "four",
    """.rstrip()
        + b""" "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": null}]}\n"""
    )
    lines = b"\n".join(line.strip() for line in rows.splitlines())
    sparklog.done("produce", "flights", "--format", "json", "-q", stdin=lines)
    return sparklog


@pytest.fixture
def admin(flights: CommandLine) -> AdminClient:
    return AdminClient(flights.log_dir)


@pytest.fixture
def groups(flights: CommandLine, admin: AdminClient) -> CommandLine:
    """With the groups `jobs`, which has read one record of each partition, and `idle`."""
    admin.alter_consumer_group_offsets(
        "jobs", {("flights", 0): CommittedOffset(1, leader_epoch=2), ("flights", 1): 1}
    )
    admin.alter_consumer_group_offsets("idle", {("flights", 0): 3})
    return flights
