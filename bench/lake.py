"""Values as columns: records/s of decode, JSON and Avro, beside plain consume of the same topics.

A value is a flight: two short texts and three numbers. Every reader drains the decoded columns;
plain consume drains the Kafka source's. Rounds are interleaved; the first warms up.
"""

import json
import shutil
from io import BytesIO
from statistics import median

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from fastavro import parse_schema, schemaless_writer
from pyspark.sql import DataFrame, SparkSession

from bench import ours
from bench.figures import Figure
from bench.settings import Settings
from bench.spark import Variant, drain, seconds_of, spark_session
from sparklog.spark import decode

RECORDS_MAX = 2_000_000
GROUP = "decoded values"
PLAIN, JSON, AVRO = "consume", "decode, JSON", "decode, Avro"
FIELDS = "carrier string, origin string, flight int, delay int, distance int"
JSON_VALUE = (
    "to_json(struct('UA' AS carrier, 'EWR' AS origin, int(id % 8000) AS flight, 40 AS delay, "
    "1400 AS distance)) AS value"
)
AVRO_SCHEMA = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in (field.split() for field in FIELDS.split(", "))
    ],
}


def run(settings: Settings) -> list[Figure]:
    """Records/s of each reader, and its share of plain consume of the same topic."""
    records = min(settings.records, RECORDS_MAX)
    with spark_session() as spark:
        figures: list[Figure] = []
        for name in (JSON, AVRO):
            load = Load(spark, settings, name, records)
            rates = load.rates(settings.rounds)
            plain = f"{PLAIN} of the same topic ({name})"
            figures.append(Figure.of_rounds(GROUP, plain, rates[PLAIN], "records/s"))
            figures.append(Figure.of_rounds(GROUP, name, rates[name], "records/s"))
            share = median(rates[name]) / median(rates[PLAIN])
            figures.append(Figure(GROUP, f"{name} / {PLAIN}", share, ""))
            shutil.rmtree(load.log_dir)
    return figures


class Load:
    """A topic whose values are of one format."""

    def __init__(self, spark: SparkSession, settings: Settings, name: str, records: int) -> None:
        self.spark, self.name, self.records = spark, name, records
        self.log_dir = settings.directory / name.replace(", ", "-")
        self.registry = SchemaRegistryClient.new_client({"url": "mock://"})
        schema = Schema(json.dumps(AVRO_SCHEMA), "AVRO")
        self.schema_id = self.registry.register_schema("bench-value", schema)
        variant = Variant(name, records)
        ours.create(self.log_dir, variant)
        ours.produce(self._rows(), self.log_dir, variant)

    def _rows(self) -> DataFrame:
        ids = self.spark.range(self.records)
        if self.name == JSON:
            return ids.selectExpr(JSON_VALUE)
        return ids.selectExpr(f"unhex('{self._avro_flight().hex()}') value")

    def _avro_flight(self) -> bytes:
        sink = BytesIO()
        flight = {"carrier": "UA", "origin": "EWR", "flight": 1545, "delay": 40, "distance": 1400}
        schemaless_writer(sink, parse_schema(dict(AVRO_SCHEMA)), flight)
        return b"\0" + self.schema_id.to_bytes(4, "big") + sink.getvalue()

    def decoded(self) -> DataFrame:
        """The columns of the values."""
        records = ours.consume(self.spark, self.log_dir)
        if self.name == JSON:
            df = decode(records, schema=FIELDS)
        else:
            df = decode(records, registry=self.registry, subject="bench-value")
        return df.select("partition", "offset", "decoded.*", "_error")

    def rates(self, rounds: int) -> dict[str, list[float]]:
        """Records/s of plain consume and of decode, by round."""
        found: dict[str, list[float]] = {PLAIN: [], self.name: []}
        if self.decoded().where("_error IS NOT NULL OR flight IS NULL").count():
            raise RuntimeError("values were not decoded")
        for _ in range(max(rounds, 1)):
            for name, seconds in (
                (PLAIN, seconds_of(lambda: drain(ours.consume(self.spark, self.log_dir)))),
                (self.name, seconds_of(lambda: drain(self.decoded()))),
            ):
                found[name].append(self.records / seconds)
        return found
