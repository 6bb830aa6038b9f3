"""The table of a topic after delta-spark has rewritten it: every engine reads the same rows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.spark import consume
from tests.table_readers import ENGINES, RECORDS, append_records, rows_by
from tests.tables import build, problems, table_of, table_path, topic_with_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BUILDS = 3


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A table of a few files."""
    log_dir = topic_with_table(tmp_path / "log", 1)
    for _ in range(BUILDS):
        append_records(log_dir, RECORDS)
        build(log_dir)
    return log_dir


def optimize(spark: SparkSession, log_dir: str) -> None:
    """OPTIMIZE, and VACUUM of all that is not of the newest version."""
    table = f"delta.`{table_path(log_dir)}`"
    spark.sql(f"OPTIMIZE {table}")
    spark.conf.set(CHECK, "false")
    try:
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    finally:
        spark.conf.unset(CHECK)


CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def spark_rows(spark: SparkSession, log_dir: str) -> list[tuple[int, bytes | None, bytes | None]]:
    found = spark.read.format("delta").load(str(table_path(log_dir)))
    rows = found.select("offset", "key", "value").collect()
    return sorted((row.offset, _bytes(row.key), _bytes(row.value)) for row in rows)


def _bytes(found: bytearray | None) -> bytes | None:
    return None if found is None else bytes(found)


def test_all_read_the_same_rows_after_optimize_and_vacuum(
    spark: SparkSession, log_dir: str
) -> None:
    before = table_of(log_dir)
    optimize(spark, log_dir)

    assert len(list(table_path(log_dir).glob("*.parquet"))) == 1
    assert table_of(log_dir) == before
    assert {engine: rows_by(engine, table_path(log_dir)) == before for engine in ENGINES} == (
        dict.fromkeys(ENGINES, True)
    )
    expected = [(at, *one[2:4]) for at, one in enumerate(RECORDS * BUILDS)]
    assert spark_rows(spark, log_dir) == expected


def test_the_table_goes_on_after_optimize_and_vacuum(spark: SparkSession, log_dir: str) -> None:
    optimize(spark, log_dir)
    append_records(log_dir, RECORDS)
    reports = build(log_dir)
    options = {"subscribe": "t", "includeHeaders": "true"}
    auto = consume(spark, log_dir, history="auto", **options)

    assert problems(reports) == []
    assert auto.exceptAll(consume(spark, log_dir, **options)).count() == 0
    assert auto.count() == (BUILDS + 1) * len(RECORDS)
