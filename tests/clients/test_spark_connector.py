"""Spark's own Kafka connector, batch and stream, reads and writes a gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.clients.conftest import Served, numbers
from tests.kafka.jars import CONNECTOR, jars

pytestmark = [pytest.mark.clients, pytest.mark.spark]

COUNT = 2000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with its Kafka connector, and without sparklog."""
    builder = SparkSession.builder.master("local[2]").appName("clients")
    settings = {
        "spark.jars": ",".join(map(str, jars(CONNECTOR))),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


def written(spark: SparkSession, served: Served, topic: str) -> None:
    """Numbers, written by a batch query."""
    records = spark.range(COUNT).selectExpr("format_string('%04d', id) AS value")
    options = {"kafka.bootstrap.servers": served.address, "topic": topic}
    records.write.format("kafka").options(**options).save()


def values(records: DataFrame) -> list[str]:
    rows = records.selectExpr("CAST(value AS STRING) AS value").collect()
    return sorted(row["value"] for row in rows)


def test_batch_queries_write_and_read(spark: SparkSession, served: Served) -> None:
    topic = served.new_topic(partitions=3)
    written(spark, served, topic)
    assert served.values(topic) == numbers(0, COUNT)
    options = {"kafka.bootstrap.servers": served.address, "subscribe": topic}
    assert values(spark.read.format("kafka").options(**options).load()) == numbers(0, COUNT)


def test_a_stream_goes_on_where_it_was(spark: SparkSession, served: Served, tmp_path: Path) -> None:
    topic, copy = served.new_topic(), served.new_topic()
    where = {"kafka.bootstrap.servers": served.address}
    for turn in (1, 2):
        written(spark, served, topic)
        source = spark.readStream.format("kafka").options(**where, subscribe=topic)
        records = source.option("startingOffsets", "earliest").load().select("key", "value")
        sink = records.writeStream.format("kafka").options(**where, topic=copy)
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start().awaitTermination(120)
        assert served.values(copy) == sorted(numbers(0, COUNT) * turn)
