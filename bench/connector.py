"""The peer: Spark's Kafka connector, to a local Kafka broker and back."""

from pyspark.sql import DataFrame, SparkSession

from bench.spark import Variant
from tests.kafka.broker import log_end_offsets


def produce(df: DataFrame, bootstrap: str, topic: str, variant: Variant) -> None:
    """Writes `df` to a topic that exists; acknowledged by the broker, which does not fsync."""
    (
        df.write.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.compression.type", variant.codec)
        .option("topic", topic)
        .mode("append")
        .save()
    )


def consume(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The whole topic, its seven columns."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )


def count(bootstrap: str, topic: str) -> int:
    """How many records the topic has been given."""
    return sum(log_end_offsets(bootstrap, topic).values())
