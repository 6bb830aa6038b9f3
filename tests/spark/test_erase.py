"""Erase as Spark does it, and a DataFrame that was planned before."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.admin.erase import erase
from sparklog.spark import consume
from sparklog.spark.jobs.fleet import SparkFleet
from tests.erasing import ALICE, keyed, left, swept
from tests.logs import catalog
from tests.tables import build, topic_with_table

pytestmark = pytest.mark.spark


class TestErase:
    def test_is_what_one_process_does(self, spark: SparkSession, tmp_path: Path) -> None:
        """Two segments, two files of the table: each fleet gets several works."""
        log_dir = topic_with_table(tmp_path / "log", partitions=2)
        for partition in (0, 1):
            keyed(log_dir, partition)
            build(log_dir)
        planned = consume(spark, log_dir, subscribe="t")
        report = erase(catalog(log_dir), "t", [ALICE], SparkFleet(lambda: spark, is_quiet=True))

        assert (report.partitions, report.table) == ({0: 3, 1: 3}, (6, 2))
        assert planned.count() == 18  # as it was planned, until vacuum has taken the files
        assert consume(spark, log_dir, subscribe="t").count() == 12
        assert left(log_dir) == {0: [1, 2, 4, 5, 7, 8], 1: [1, 2, 4, 5, 7, 8]}
        assert swept(log_dir) == []
        assert planned.count() == 12
