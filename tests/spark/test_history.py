"""consume(history=…): the table of a topic and its log as one DataFrame."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparklog.maintenance.build_table import build_table
from sparklog.spark import consume
from tests.logs import append, new_topic
from tests.maintenance import outcome_of

CONFIG = {
    "sparklog.table.enable": "true",
    "sparklog.table.target.lag.ms": 0,
    "retention.ms": -1,
}
HOUR_MS = 3_600_000

Read = Callable[..., DataFrame]


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic of three partitions: five records of each in the table, five behind it."""
    log_dir = new_topic(tmp_path / "log", "t", 3, CONFIG)
    fill(log_dir, 0)
    outcome_of(build_table, log_dir, rebuild=False)
    fill(log_dir, 5)
    return log_dir


def fill(log_dir: str, first: int) -> None:
    for partition in range(3):
        numbers = range(first, first + 5)
        append(
            log_dir,
            partition,
            [f"value {number}" if number % 3 else None for number in numbers],
            keys=[f"key {partition}" for _ in numbers],
            timestamps=[number * HOUR_MS for number in numbers],
        )


@pytest.fixture
def read(spark: SparkSession, log_dir: str) -> Read:
    def consumed(history: str, **options: Any) -> DataFrame:
        given = {"subscribe": "t", **options}
        return consume(spark, log_dir, history=history, **given)

    return consumed


def rows(df: DataFrame) -> list[Any]:
    return sorted(map(str, df.collect()))


def plan_of(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


class TestAuto:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"includeHeaders": "true"},
            {"columns": "offset,value"},
            {"startingOffsets": '{"t": {"0": 2, "1": 7}}', "endingOffsets": '{"t": {"0": 4}}'},
            {"startingTimestamp": 3 * HOUR_MS, "endingTimestamp": 7 * HOUR_MS},
            {"subscribe": None, "assign": '{"t": [1]}'},
            {"versionAsOf": 4},
            {"isolation.level": "read_committed"},
            {"minPartitions": 8},
        ],
    )
    def test_has_the_rows_and_columns_of_the_log(self, read: Read, options: Any) -> None:
        auto, log = read("auto", **options), read("log", **options)

        assert auto.schema == log.schema
        assert rows(auto) == rows(log)

    def test_reads_the_table_as_far_as_it_goes(self, read: Read) -> None:
        plan = plan_of(read("auto"))

        assert "FileScan parquet" in plan
        assert "MapInArrow" in plan

    @pytest.mark.parametrize(
        ("condition", "pushed"),
        [
            ("partition = 1", "EqualTo(partition,1)"),
            ("offset > 2", "GreaterThan(offset,2)"),
            ("timestamp < '1970-01-01'", "LessThan(timestamp,1970-01-01T05:00:00Z)"),
        ],
    )
    def test_hands_filters_to_parquet(self, read: Read, condition: str, pushed: str) -> None:
        filtered = read("auto").where(condition)

        assert pushed in plan_of(filtered).partition("PushedFilters: [")[2].partition("]")[0]

    def test_is_in_order_where_that_is_asked_for(self, read: Read) -> None:
        found = read("auto", ordered="true").collect()

        for partition in range(3):
            assert [row.offset for row in found if row.partition == partition] == list(range(10))
