"""consume(): a log as a DataFrame, with the options of Spark's Kafka source.

plan     the ranges of offsets, in the driver; for a client of Spark Connect in a task
read     a task a range: `mapInArrow` over the numbers of the ranges
"""

from os import PathLike, fspath
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparklog.config.connector import without_connector_options
from sparklog.config.options import CONSUME_OPTIONS, ISOLATION_LEVEL, parse_options
from sparklog.spark.connect import PlanTask, is_connect, planned_on_server
from sparklog.spark.schema import output_columns, output_schema
from sparklog.spark.session import require_workers
from sparklog.storage import open_files


def consume(spark: SparkSession, log_dir: str | PathLike[str], **options: Any) -> DataFrame:
    """Return the records of topics as a DataFrame, each partition in the order of its log.

    Options are the Kafka source's (sparklog.config.options): `subscribe`, `assign` or
    `subscribePattern`; `startingOffsets`, `endingOffsets`, `startingTimestamp`, …,
    `includeHeaders`, `columns`, `minPartitions`, `maxRecordsPerPartition`, `failOnDataLoss`,
    `isolation.level`, `storage.<NAME>`. Options of the connector that mean nothing without brokers
    are ignored, with a warning. Columns are the Kafka source's too (sparklog.spark.schema).

    Offsets are settled now: whenever the DataFrame runs, and however often, it reads these.
    Raises InvalidOptionError, UnknownTopicError, OffsetOutOfRangeError, and UsageError when the
    session's workers cannot run it. What goes wrong while it runs is raised by Spark
    (PythonException), whose last line is the error of sparklog.errors.
    """
    from sparklog.metadata.catalog import Catalog
    from sparklog.spark.plan import plan_read
    from sparklog.spark.read_task import RangesTask, ReadTask

    given = without_connector_options(options, client_options=(ISOLATION_LEVEL,))
    parsed, storage = parse_options(CONSUME_OPTIONS, given)
    schema = output_schema(output_columns(parsed))
    files = open_files(fspath(log_dir), storage)
    if is_connect(spark):
        ranges = planned_on_server(spark, PlanTask(files, parsed))
    else:
        ranges = plan_read(Catalog(files), parsed)
    require_workers(spark)
    count = len(ranges)
    numbers = spark.range(0, count, 1, max(count, 1))  # the number of a range, a task each
    return numbers.mapInArrow(RangesTask(ReadTask(files, parsed), ranges), schema)
