"""One Spark for all tests of this folder: two cores, a small heap, Delta's jars beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.spark import session
from tests.kafka.jars import CONNECTOR, DELTA, HADOOP_AWS, JarsUnavailableError, is_offline, jars
from tests.logs import new_topic

TASK_TRIES = 2

SETTINGS = {
    "spark.master": f"local[2, {TASK_TRIES}]",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.session.timeZone": "America/New_York",
}
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # of 50: a task each, for every version read
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # of 10,000, for VACUUM
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session like a user's who reads Delta tables too; not in UTC, so that times show."""
    warehouse = {"spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse")}
    spark = session("sparklog tests", **SETTINGS, **warehouse, **delta_settings())
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


def delta_settings() -> dict[str, str]:
    try:
        found = [*jars(DELTA), *jars(CONNECTOR), *jars(HADOOP_AWS)]
    except JarsUnavailableError:
        if is_offline():
            return {}  # the tests that need them skip
        raise
    return {"spark.jars": ",".join(map(str, found)), **DELTA_SETTINGS}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A log dir with topic `t` of four partitions."""
    return new_topic(tmp_path / "log")
