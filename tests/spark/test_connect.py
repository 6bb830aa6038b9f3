"""A client of Spark Connect reads and writes; only `produce` needs the driver."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import ROOT, clean_environment
from tests.logs import append, new_topic

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one client was answered; a server does not share a JVM with another session."""
    log_dir = new_topic(Path(tmp_path_factory.mktemp("connect")) / "log")
    new_topic(log_dir, "copy")
    append(log_dir, 0, ["a", "b"])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", log_dir],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=clean_environment() | {"PYSPARK_PYTHON": sys.executable},
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


class TestClient:
    def test_consumes_offsets_that_are_settled(self, answers: dict[str, Any]) -> None:
        assert (answers["settled"], answers["after a write"]) == (2, 2)

    def test_is_told_what_a_plan_refuses(self, answers: dict[str, Any]) -> None:
        assert answers["unknown"].startswith("UnknownTopicError: unknown topic 'tt'")

    def test_reads_writes_and_streams_by_format(self, answers: dict[str, Any]) -> None:
        assert answers["copied"] == 5

    def test_is_told_how_to_produce(self, answers: dict[str, Any]) -> None:
        assert answers["produce"].startswith("UsageError: produce commits in the driver")
        assert "df.write.format" in answers["produce"]
