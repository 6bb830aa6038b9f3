"""decode and what Spark's own Kafka connector reads of a gateway, batch and stream."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import DataFrame, Observation, SparkSession

from sparklog.spark import decode
from tests.logs import FOREVER, append, new_topic
from tests.wire.processes import gateway_process

pytestmark = pytest.mark.spark

JSON = ['{"a": 1, "b": "x"}', "{", None, '{"a": 4}']
AVRO = ["\0\0\0\0\1\2", "\0\0\0\0\1", "x", "\0\0\0\0\7\2"]
"""Keys: 1, a broken one, one without the header, one of an unknown schema."""

COUNTS = {"records": 4, "errors": 1, "unknown_ids": 0}
KEY_COUNTS = {"records": 4, "errors": 3, "unknown_ids": 1}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the connector needs to read a topic with JSON values and Avro keys."""
    log_dir = new_topic(tmp_path_factory.mktemp("kafka") / "log", "t", 1, FOREVER)
    append(log_dir, 0, JSON, keys=AVRO)
    with gateway_process(Path(log_dir)) as process:
        yield {
            "kafka.bootstrap.servers": process.address,
            "subscribe": "t",
            "startingOffsets": "earliest",
        }


def decoded(records: DataFrame, values: Observation | str, keys: Observation | str) -> DataFrame:
    """The columns of the connector, and those of its values and keys."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    assert client.register_schema("t-key", Schema('"int"', "AVRO")) == 1
    found = decode(records, schema="a int, b string", observation=values)
    found = found.withColumnsRenamed({"_schema_id": "value_id", "_error": "value_error"})
    return decode(found, "key", registry=client, subject="t-key", into="number", observation=keys)


def check(found: DataFrame, records: DataFrame) -> None:
    rows = sorted(found.collect(), key=lambda row: int(row.offset))  # Spark's sort reads twice

    assert found.columns[: len(records.columns)] == records.columns
    assert [row.decoded and tuple(row.decoded) for row in rows] == [(1, "x"), None, None, (4, None)]
    assert [row.value_error is not None for row in rows] == [False, True, False, False]
    assert [row.number for row in rows] == [1, None, None, None]
    assert [row._schema_id for row in rows] == [1, 1, None, 7]
    assert [row._error is None for row in rows] == [True, False, False, False]


class TestConnector:
    def test_batches_are_decoded(self, spark: SparkSession, options: dict[str, str]) -> None:
        records = spark.read.format("kafka").options(**options).load()
        values, keys = Observation(), Observation()
        check(decoded(records, values, keys), records)

        assert (values.get, keys.get) == (COUNTS, KEY_COUNTS)

    def test_streams_are_decoded_and_counted(
        self, spark: SparkSession, options: dict[str, str]
    ) -> None:
        """The schema is that of a batch of the same topic."""
        records = spark.readStream.format("kafka").options(**options).load()
        writer = decoded(records, "values", "keys").writeStream.format("memory")
        query = writer.queryName("decoded_kafka").trigger(availableNow=True).start()
        query.awaitTermination()
        check(spark.table("decoded_kafka"), records)
        counts = query.recentProgress[0]["observedMetrics"]

        assert counts["values"].asDict() == COUNTS
        assert counts["keys"].asDict() == KEY_COUNTS

    def test_a_sample_has_the_type(self, spark: SparkSession, options: dict[str, str]) -> None:
        batch = spark.read.format("kafka").options(**options).load()
        stream = spark.readStream.format("kafka").options(**options).load()

        for records in (batch, stream):
            kind = decode(records, schema=batch).schema["decoded"].dataType.simpleString()
            assert kind == "struct<a:bigint,b:string>"
