"""consume(): a log as a DataFrame, with the options of Spark's Kafka source."""

from os import PathLike, fspath
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparklog.config.connector import without_connector_options
from sparklog.config.options import CONSUME_OPTIONS, ISOLATION_LEVEL, STORAGE_PREFIX, parse_options
from sparklog.metadata.catalog import Catalog
from sparklog.spark.access import RANGES, encode_ranges
from sparklog.spark.datasource import SparklogDataSource, register
from sparklog.spark.plan import plan_read
from sparklog.spark.schema import output_columns
from sparklog.spark.session import require_classic
from sparklog.storage import open_files


def consume(spark: SparkSession, log_dir: str | PathLike[str], **options: Any) -> DataFrame:
    """Return the records of topics as a DataFrame, each partition in the order of its log.

    Options are the Kafka source's (sparklog.config.options): `subscribe`, `assign` or
    `subscribePattern`; `startingOffsets`, `endingOffsets`, `startingTimestamp`, …,
    `includeHeaders`, `columns`, `minPartitions`, `maxRecordsPerPartition`, `failOnDataLoss`,
    `isolation.level`, `storage.<NAME>`. Options of the connector that mean nothing without brokers
    are ignored, with a warning. Columns are the Kafka source's too (sparklog.spark.schema).

    Offsets are settled now: whenever the DataFrame runs, and however often, it reads these.
    Raises InvalidOptionError, UnknownTopicError, OffsetOutOfRangeError. What goes wrong while it
    runs is raised by Spark (PythonException), whose last line is the error of sparklog.errors.
    """
    require_classic(spark)
    given = without_connector_options(options, client_options=(ISOLATION_LEVEL,))
    parsed, storage = parse_options(CONSUME_OPTIONS, given)
    files = open_files(fspath(log_dir), storage)
    ranges = plan_read(Catalog(files), parsed)
    register(spark)
    reader = spark.read.format(SparklogDataSource.name())
    # All settings, also those of this process's environment, which the JVM may not have.
    for name, value in files.options.items():
        reader = reader.option(STORAGE_PREFIX + name, value)
    reader = reader.option("failOnDataLoss", parsed["failOnDataLoss"])
    reader = reader.option("isolation.level", parsed["isolation.level"])
    reader = reader.option("columns", ",".join(output_columns(parsed)))
    return reader.option(RANGES, encode_ranges(ranges)).load(files.uri)
