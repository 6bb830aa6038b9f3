"""consume(): a log as a DataFrame, with the options of Spark's Kafka source.

plan     the ranges of offsets, in the driver; for a client of Spark Connect in a task
read     `mapInArrow` over the ranges, for a client of Spark Connect a data source of them: Spark
         sends each task its own, which is one, or several small ones with history=auto
history  the topic's table instead of the log, up to the table end, if asked for
         (sparklog.spark.lake.history)
"""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from sparklog.config.connector import without_connector_options
from sparklog.config.options import (
    CONSUME_OPTIONS,
    HISTORY_OPTIONS,
    ISOLATION_LEVEL,
    parse_options,
)
from sparklog.errors import InvalidOptionError
from sparklog.spark.commit_group import remember_ends
from sparklog.spark.connect import is_connect, planned
from sparklog.spark.schema import output_columns, output_schema
from sparklog.spark.session import require_workers
from sparklog.storage import Files, open_files

if TYPE_CHECKING:
    from sparklog.spark.reading.plan import ReadRange


def consume(spark: SparkSession, log_dir: str | PathLike[str], **options: Any) -> DataFrame:
    """Return the records of topics as a DataFrame, each partition in the order of its log.

    Columns are the Kafka source's: key binary, value binary, topic string, partition int, offset
    bigint, timestamp timestamp, timestampType int; with `includeHeaders` also headers
    array<struct<key: string, value: binary>>.

    Options are the Kafka source's: `subscribe`, `assign` or `subscribePattern`; `startingOffsets`,
    `endingOffsets`, `startingTimestamp`, …, `includeHeaders`, `minPartitions`,
    `maxRecordsPerPartition`, `failOnDataLoss`, `isolation.level`. Options of the connector that
    mean nothing without brokers are ignored, with a warning. `columns` names the columns to read,
    `storage.<NAME>` is a storage setting. With `groupId` and `startingOffsets` "committed" the
    read begins at the offsets that this group has committed (`sparklog.spark.commit_group`).

    `history` "log", the default, reads the log. "auto" reads the topics' tables as far as they have
    the same rows, and the log for the rest; "table" reads the tables alone. Rows of tables are in
    no order unless `ordered` is true.

    The call fixes the offsets: the DataFrame reads the same offsets whenever it runs. It reads them
    from the present segments as long as vacuum leaves their files, so all of its tasks see a later
    erasure or compaction, or none does.

    Raises InvalidOptionError, UnknownTopicError, OffsetOutOfRangeError, and UsageError when the
    session's workers cannot run it. For an error while it runs Spark raises a PythonException,
    whose last line is the error of sparklog.errors.
    """
    given = without_connector_options(options, client_options=(ISOLATION_LEVEL,))
    parsed, storage = parse_options((*CONSUME_OPTIONS, *HISTORY_OPTIONS), given)
    columns = output_columns(parsed)
    files = open_files(fspath(log_dir), storage)
    if parsed["history"] == "log":
        from sparklog.spark.reading.plan import plan_pinned

        plan = planned(spark, files, parsed, plan_pinned)
        tasks = [[one] for one in plan.ranges]
        return remember_ends(log_rows(spark, files, parsed, tasks), plan.ends)
    if parsed["groupId"] is not None:
        raise InvalidOptionError(
            "option groupId is for the log: history=log, as without the option", option="groupId"
        )
    if not parsed["ordered"]:
        return _with_history(spark, files, parsed, columns)
    from sparklog.spark.lake.history import ORDER, in_order

    read = tuple(dict.fromkeys((*columns, *ORDER)))
    found = _with_history(spark, files, {**parsed, "columns": read}, read)
    return in_order(found).select(*columns)


def log_rows(
    spark: SparkSession,
    files: Files,
    options: Mapping[str, Any],
    tasks: "Sequence[Sequence[ReadRange]]",
) -> DataFrame:
    """Return the records of planned ranges; `tasks` has the ranges of each task."""
    from sparklog.spark.reading.read_task import RangesTask, ReadTask

    require_workers(spark)
    schema = output_schema(output_columns(options))
    read = RangesTask(ReadTask(files, options))
    if is_connect(spark):
        from sparklog.spark.reading.ranges_source import ranges_frame

        return ranges_frame(spark, read, tasks, schema)
    return _input(spark, tasks).mapInArrow(read, schema)


def _input(spark: SparkSession, tasks: "Sequence[Sequence[ReadRange]]") -> DataFrame:
    """Return the ranges as a DataFrame of pickled lists; those of a task are a partition.

    Spark sends a partition with its task alone. The optimizer does not know the size of an RDD, so
    it does not take a log for a small table, to be collected and broadcast in a join.
    """
    rows = spark.sparkContext.parallelize(tasks, max(len(tasks), 1))
    session, jvm = spark._jsparkSession, spark._jvm  # noqa: SLF001 - PySpark has no call for it
    binary = jvm.org.apache.spark.sql.Encoders.BINARY()  # type: ignore[union-attr] # no types
    found = session.createDataset(rows._jrdd.rdd(), binary)  # noqa: SLF001 - nor for this
    return DataFrame(found.toDF(), spark)


def _with_history(
    spark: SparkSession, files: Files, options: Mapping[str, Any], columns: Sequence[str]
) -> DataFrame:
    from sparklog.spark.lake.history import offsets_at, stitched
    from sparklog.spark.lake.history_plan import plan_auto
    from sparklog.spark.lake.table_plan import plan_table
    from sparklog.spark.requirements import require_delta

    if options["history"] == "auto":
        plan = planned(spark, files, options, plan_auto)
        if not plan.tables:
            return log_rows(spark, files, options, plan.log)
        log = log_rows(spark, files, options, plan.log) if plan.log else None
        return stitched(spark, log, plan.tables, columns)
    wanted = planned(spark, files, options, plan_table)
    require_delta(spark)
    parts = wanted.parts(offsets_at(spark, wanted.times()), options)
    return stitched(spark, None if parts else log_rows(spark, files, options, ()), parts, columns)
