"""sparklog, as a user calls it."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark import Variant
from sparklog.admin import LATEST_TIMESTAMP, AdminClient, NewTopic
from sparklog.model import TopicPartition
from sparklog.spark import consume as sparklog_consume
from sparklog.spark import produce as sparklog_produce

TOPIC = "bench"


def create(log_dir: Path, variant: Variant) -> None:
    """A log dir with one empty topic."""
    AdminClient(log_dir).create_topics([NewTopic(TOPIC, variant.partitions)])


def produce(df: DataFrame, log_dir: Path, variant: Variant) -> None:
    """Writes `df`, indexes and commit included, and fsync unless the variant leaves it out."""
    options = {"compression.type": variant.codec, "flush": variant.flush}
    sparklog_produce(df, str(log_dir), topic=TOPIC, **options)


def write(df: DataFrame, log_dir: Path, variant: Variant) -> None:
    """The same through `format("sparklog")`."""
    options = {"compression.type": variant.codec, "flush": variant.flush, "topic": TOPIC}
    df.write.format("sparklog").options(**options).mode("append").save(str(log_dir))


def read(spark: SparkSession, log_dir: Path, **options: str) -> DataFrame:
    """The whole topic through `format("sparklog")`."""
    reader = spark.read.format("sparklog").option("subscribe", TOPIC)
    return reader.options(**options).load(str(log_dir))


def consume(spark: SparkSession, log_dir: Path) -> DataFrame:
    """The whole topic, its seven columns."""
    return sparklog_consume(spark, str(log_dir), subscribe=TOPIC)


def count(log_dir: Path, num_partitions: int) -> int:
    """How many records the topic has been given."""
    ends = AdminClient(log_dir).list_offsets(
        {TopicPartition(TOPIC, number): LATEST_TIMESTAMP for number in range(num_partitions)}
    )
    return sum(end.offset for end in ends.values())
