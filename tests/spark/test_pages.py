"""The Python examples of the README and of the pages of groups and transactions, as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparklog import AdminClient, NewTopic
from sparklog.spark import consume, produce

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


def run(page: str, folder: Path, *, skip: int = 0) -> dict[str, Any]:
    """Run the blocks of a page after the first `skip`, with its paths below `folder`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in ('"log"', '"ckpt"', 'parquet("flights"'):
        text = text.replace(name, name.replace('"', f'"{folder}/', 1))
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)[skip:]:
        exec(compile(block, page, "exec"), names)
    return names


def produce_flights(spark: SparkSession, log: str) -> None:
    """Produce ten records, one of them late."""
    values = "IF(id = 7, 'late', 'on time')"
    produce(spark.range(10).selectExpr("string(id) AS key", f"{values} AS value"), log, "flights")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the log dir that the examples call "log"; they print nothing."""
    monkeypatch.setattr("builtins.print", lambda *_: None)
    return str(tmp_path / "log")


def test_the_readme_copies_a_topic(spark: SparkSession, log: str, tmp_path: Path) -> None:
    run("README.md", tmp_path)

    assert consume(spark, log, subscribe="copy").count() == 1000


def test_a_group_continues_the_next_night(spark: SparkSession, log: str, tmp_path: Path) -> None:
    AdminClient(log).create_topics([NewTopic("flights", 2)])
    for _night in range(2):
        produce_flights(spark, log)
        names = run("docs/groups.md", tmp_path)

    assert spark.read.parquet(str(tmp_path / "flights")).count() == 20
    found = AdminClient(log).list_consumer_group_offsets("nightly").values()
    assert sum(one.offset for one in found if one) == 20
    assert names["stream"].isStreaming


def test_a_commit_has_two_topics_and_a_group(spark: SparkSession, log: str, tmp_path: Path) -> None:
    AdminClient(log).create_topics([NewTopic(name, 2) for name in ("flights", "copy", "late")])
    produce_flights(spark, log)
    for _ in range(2):
        run("docs/transactions.md", tmp_path, skip=1)

    counts = [consume(spark, log, subscribe=name).count() for name in ("copy", "late")]
    assert counts == [10, 1]
    found = AdminClient(log).list_consumer_group_offsets("etl").values()
    assert sum(one.offset for one in found if one) == 10
