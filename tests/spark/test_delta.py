"""delta-spark reads the metadata log: rows of its runs, its history. It writes nothing into it."""

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import DataFrame, Row, SparkSession

from sparklog.author import who
from sparklog.metadata.upkeep.fold import fold
from tests.kafka.jars import DELTA, cache_dir, is_offline, jars
from tests.logs import append, catalog, image, live_rows, new_topic

pytestmark = pytest.mark.spark

COMMITS = 15
REFUSED = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"


@pytest.fixture(scope="module")
def delta_jars() -> None:
    """Skips where SPARKLOG_OFFLINE=1 forbids to fetch them; the session has them otherwise."""
    if is_offline() and not (cache_dir() / DELTA.name).is_dir():
        pytest.skip("SPARKLOG_OFFLINE=1 and no jars")
    jars(DELTA)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic `t`, with two runs and a commit behind them; topic `u`, of the newest run."""
    log_dir = new_topic(tmp_path_factory.mktemp("delta") / "log", partitions=2)
    for number in range(COMMITS):
        append(log_dir, number % 2, [number])
    fold(catalog(log_dir).log)
    new_topic(log_dir, "u", 7, {"retention.ms": -1})
    fold(catalog(log_dir).log)
    append(log_dir, 0, ["not folded"])
    return log_dir


def table_of(log_dir: str) -> str:
    return f"{log_dir}/__cluster_metadata"


@pytest.fixture
def table(spark: SparkSession, log_dir: str) -> DataFrame:
    return spark.read.format("delta").load(table_of(log_dir))


@pytest.mark.usefixtures("delta_jars")
class TestRows:
    def test_are_the_folded_image(self, table: DataFrame, log_dir: str) -> None:
        names = ("partition", "base_offset", "next_offset", "log_path")
        found = table.where("kind = 'segment' and not gone").select(*names).collect()
        live = live_rows(log_dir).select(list(names)).to_pylist()

        assert len(found) == COMMITS
        assert {tuple(row) for row in found} < {tuple(row.values()) for row in live}

    def test_are_as_many_as_the_runs_say(self, table: DataFrame, log_dir: str) -> None:
        runs = catalog(log_dir).image().fold.runs

        assert len(runs) == 2
        assert table.count() == sum(run.rows for run in runs)

    def test_tell_of_topics(self, table: DataFrame, log_dir: str) -> None:
        topics = table.where("kind = 'topic'").select("name", "topic_id", "partition_count")

        assert {(row.name, row.topic_id, row.partition_count) for row in topics.collect()} == {
            (topic.name, topic.topic_id, topic.num_partitions)
            for topic in catalog(log_dir).topics().values()
        }


@pytest.mark.usefixtures("delta_jars")
class TestHistory:
    @pytest.fixture
    def history(self, spark: SparkSession, log_dir: str) -> list[Row]:
        """The newest entry first."""
        return spark.sql(f"DESCRIBE HISTORY delta.`{table_of(log_dir)}`").collect()

    def test_tells_who_did_what(self, history: list[Row]) -> None:
        told: list[Any] = [(row.version, row.operation) for row in history]

        assert told == [
            (COMMITS + 5, "PRODUCE"),
            (COMMITS + 4, "FOLD"),
            (COMMITS + 3, "CREATE TOPICS"),
            (COMMITS + 2, "FOLD"),
            *((version, "PRODUCE") for version in range(COMMITS + 1, 1, -1)),
            (1, "CREATE TOPICS"),
            (0, "CREATE LOG DIR"),
        ]

    def test_tells_of_which_topics_and_how_much(self, history: list[Row]) -> None:
        newest = history[0].operationParameters

        assert newest["topics"] == "t"
        assert newest["who"].partition(" ")[0] == who().partition(" ")[0]
        assert (newest["segments"], newest["records"]) == ("1", "1")
        assert int(newest["bytes"]) > 0

    def test_has_the_time_and_the_release(self, history: list[Row]) -> None:
        times = [row.timestamp for row in history]

        assert times == sorted(times, reverse=True)
        assert {row.engineInfo.split("/")[0] for row in history} == {"sparklog"}


@pytest.mark.usefixtures("delta_jars")
class TestWriting:
    """The table says that writers need a feature which nobody else has."""

    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_rows_is_refused(self, table: DataFrame, log_dir: str, mode: str) -> None:
        before = sorted(Path(table_of(log_dir)).rglob("*.json"))

        with pytest.raises(Py4JJavaError, match=REFUSED):
            table.limit(1).write.format("delta").mode(mode).save(table_of(log_dir))
        assert sorted(Path(table_of(log_dir)).rglob("*.json")) == before

    @pytest.mark.parametrize("statement", ["DELETE FROM {}", "OPTIMIZE {}", "VACUUM {}"])
    def test_in_sql_is_refused(self, spark: SparkSession, log_dir: str, statement: str) -> None:
        before = image(log_dir).version

        with pytest.raises(Py4JJavaError, match=REFUSED):
            spark.sql(statement.format(f"delta.`{table_of(log_dir)}`")).collect()
        assert image(log_dir).version == before
