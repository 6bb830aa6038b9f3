"""The memory of `sparklog produce`."""

import json

import pytest

from tests.command_line import CommandLine
from tests.logs import log_files


def test_is_bounded_for_all_topics_together(
    sparklog: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each topic alone stays below the limit; together they exceed it."""
    monkeypatch.setattr("sparklog.log_writer.topic_writer.SMALL_BYTES_MAX", 2500)
    counts = {"t": 10, "u": 20, "v": 12}
    for name in counts:
        sparklog.done("topic", "create", name)
    lines = [
        json.dumps({"topic": name, "value": "x" * 50}) + "\n"
        for name, count in counts.items()
        for _ in range(count)
    ]
    (summary,) = sparklog.done("produce", "--format", "json", stdin="".join(lines).encode()).json

    assert {path.parts[-3][0] for path in log_files(sparklog.log_dir)} == {"u"}
    assert [one["records"] for one in summary["ranges"]] == [*counts.values()]
