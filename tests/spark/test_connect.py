"""A client of Spark Connect reads and writes; only `produce` needs the driver."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.cluster.standalone import ROOT, clean_environment
from tests.logs import append, new_topic
from tests.tables import WITH_TABLE, build

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one client was answered; a server does not share a JVM with another session."""
    log_dir = new_topic(Path(tmp_path_factory.mktemp("connect")) / "log")
    new_topic(log_dir, "copy")
    append(log_dir, 0, ["a", "b"])
    for topic in ("old", "changed"):
        new_topic(log_dir, topic, 1, WITH_TABLE)
        append(log_dir, 0, ["a", None], topic=topic, keys=["k", "l"])
    build(log_dir)
    (changed,) = Path(log_dir).glob("changed-*/table")
    DeltaTable(changed).delete("offset = 0")
    append(log_dir, 0, ["c"], topic="old")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", log_dir],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        # SPARK_TESTING gives the server a free port: two processes may run these tests at once.
        env=clean_environment() | {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


class TestClient:
    def test_consumes_offsets_that_are_settled(self, answers: dict[str, Any]) -> None:
        assert (answers["settled"], answers["after a write"]) == (2, 2)

    def test_joins_a_log_without_a_broadcast_of_it(self, answers: dict[str, Any]) -> None:
        assert "SortMergeJoin" in answers["join"]
        assert "Broadcast" not in answers["join"]

    def test_is_told_what_a_plan_refuses(self, answers: dict[str, Any]) -> None:
        assert answers["unknown"].startswith("UnknownTopicError: unknown topic 'tt'")

    def test_reads_writes_and_streams_by_format(self, answers: dict[str, Any]) -> None:
        assert answers["copied"] == 5

    def test_is_told_how_to_produce(self, answers: dict[str, Any]) -> None:
        assert answers["produce"].startswith("UsageError: produce commits in the driver")
        assert "df.write.format" in answers["produce"]


class TestHistory:
    def test_is_read_from_table_and_log(self, answers: dict[str, Any]) -> None:
        assert (answers["auto is log"], answers["rows"]) == (True, 3)
        assert answers["in order"] == [0, 1, 2]

    def test_is_read_from_the_table_alone(self, answers: dict[str, Any]) -> None:
        assert (answers["of the table"], answers["by time"]) == (2, 1)
        assert answers["no table"].startswith("UsageError: topic 't' has no table")

    def test_has_the_table_under_a_name(self, answers: dict[str, Any]) -> None:
        assert answers["by name"] == 2

    def test_warns_of_a_table_that_somebody_has_changed(self, answers: dict[str, Any]) -> None:
        assert answers["changed"] == 2
        (told,) = answers["told"]
        assert "is DELETE by delta-rs" in told
        assert told.endswith("reading the log")
