"""Merging, indexes and verify as Spark tasks, by their own command lines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.cli.app import run
from tests.edits import spans
from tests.logs import OWN_FILES, append, image, log_files, new_topic, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def small(tmp_path: Path) -> str:
    """Two partitions of three segments each, without indexes."""
    config = {"index.build": "job", "index.interval.bytes": 0, **OWN_FILES}
    log_dir = new_topic(tmp_path / "log", partitions=2, config=config)
    for number in range(6):
        append(log_dir, number % 2, range(number, number + 50))
    return log_dir


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Runs a job; its exit code, and the line it prints last: that of the topic."""

    def ended(job: str, log_dir: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        code = run(["jobs", job, "--log-dir", log_dir, "--format", "json", "--quiet", *arguments])
        lines = capsys.readouterr().out.splitlines()
        return code, json.loads(lines[-1]) if lines else {}

    return ended


Report = Callable[..., tuple[int, dict[str, Any]]]


class TestMergeSegments:
    def test_joins_what_is_small(self, small: str, report: Report) -> None:
        before = rows(small)
        code, found = report("merge_segments", small)

        assert (code, found["segments"], found["into"]) == (0, 6, 2)
        assert spans(image(small), 0) == spans(image(small), 1) == [(0, 150)]
        assert rows(small) == before
        assert report("merge_segments", small) == (3, {})

    def test_a_corrupt_segment_stops_its_own_partition(self, small: str, report: Report) -> None:
        path = damage(small)
        code, found = report("merge_segments", small)

        (problem,) = found["problems"]
        assert (code, found["into"]) == (1, 1)
        assert problem.startswith(f"t-0: {path}, position 0, offset 0: the checksum")
        assert len(spans(image(small), 0)) == 3


class TestBuildIndex:
    def test_builds_what_was_left_to_it(self, small: str, report: Report) -> None:
        code, found = report("build_index", small)

        assert (code, found["built"], found["problems"]) == (0, 6, [])
        assert len(log_files(small, ".timeindex")) == 6
        assert report("build_index", small) == (3, {})
        assert report("build_index", small, "--rebuild")[1]["built"] == 6


class TestVerify:
    def test_says_what_is_wrong_and_mends_it(self, small: str, report: Report) -> None:
        assert report("verify", small)[0] == 0
        path = damage(small)
        code, found = report("verify", small)
        assert (code, found["damaged"]) == (1, 1)
        assert found["problems"][0].startswith(f"{path}: bytes [0, ")

        code, found = report("verify", small, "--repair")
        assert (code, found["repaired"]) == (0, 1)
        assert "t-0: offsets [0, 50) are lost" in found["notes"]
        assert report("verify", small)[0] == 0
        assert len(rows(small)[0]) == 100


def damage(log_dir: str) -> Path:
    """Turn a byte of the oldest log of partition 0; its path in the log dir."""
    path = log_files(log_dir)[0]
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    return path.relative_to(log_dir)
