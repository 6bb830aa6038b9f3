"""The table of a topic in Spark's catalog, and as the beginning of a stream."""

import re
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sparklog.errors import UsageError
from sparklog.spark.connect import planned
from sparklog.storage import open_files

if TYPE_CHECKING:
    from sparklog.metadata.catalog import Catalog

_PART: Final = re.compile("`(?:[^`]|``)+`|[^`.]+")
"""A part of a table's name: in backquotes, or without dots and backquotes."""


def create_table(
    spark: SparkSession, name: str, log_dir: str | PathLike[str], topic: str, **options: Any
) -> None:
    """Add the table of a topic to Spark's catalog, under `name`, so that SQL can read it.

    DROP TABLE removes the name and leaves the files. `options` are storage settings. For a client
    of Spark Connect a task looks the table up, because the client may not see it. Raises UsageError
    for a session without delta-spark, for a topic without a table, and for a `name` that is no
    table name; UnknownTopicError; and Spark's errors, for example for a name that is taken.
    """
    from sparklog.spark.requirements import require_delta

    require_delta(spark)
    found = planned(spark, open_files(fspath(log_dir), options), {"topic": topic}, _location)
    location = found.replace("'", "\\'")
    spark.sql(f"CREATE TABLE {quoted(name)} USING delta LOCATION '{location}'")


def _location(catalog: "Catalog", options: Mapping[str, Any]) -> str:
    """Return the address of a topic's table for Spark. Raises UsageError for one without it."""
    from sparklog.spark.lake.location import spark_location
    from sparklog.spark.lake.table_plan import without_table
    from sparklog.table.of_topic import delta_log, table_directory

    topic = catalog.topic(options["topic"])
    if not delta_log(catalog.files, topic, catalog.clock).snapshot().exists:
        raise without_table(topic.name)
    return spark_location(catalog.files, table_directory(topic))


def quoted(name: str) -> str:
    """Return a table's name with each part in backquotes; within them a dot is no separator.

    Raises UsageError for an empty part, and for a backquote that has no end.
    """
    parts = _PART.findall(name)
    if not parts or ".".join(parts) != name:
        raise UsageError(f"{name!r} is no name of a table: allowed are a, a.b, `a`.`b.c`")
    return ".".join(part if part.startswith("`") else f"`{part}`" for part in parts)


def stream_history(
    spark: SparkSession,
    log_dir: str | PathLike[str],
    topic: str,
    write: Callable[[DataFrame], DataStreamWriter],
    checkpoint: str | PathLike[str],
    **options: Any,
) -> StreamingQuery:
    """Write a topic's table and then its log; return the running query over the log.

    `write` is called for each of the two streams, and returns its writer. The streams have the
    columns of the Kafka source, and `headers`. `write` may set a trigger for the stream of the log;
    the stream of the table ends by itself, and this call waits for it. `options` are those of a
    streaming read of the log, without those for topics, columns and the start, and storage
    settings. `checkpoint` is a directory that the driver and Spark know by the same name; a client
    of Spark Connect needs it and the log dir, too. If the program is killed at any point and calls
    again, no row comes twice and none is missing. The table has the records that a read_committed
    reader sees.

    Raises InvalidOptionError, UnknownTopicError; UsageError for a session without delta-spark, for
    a topic without a table or with one that is no copy of its log, for a `write` that returns no
    writer or starts it, for a first query that is stopped, and after it for a sink that would take
    the second one for the same (format parquet, orc, json, csv or text); StreamingQueryException
    when the first query fails.
    """
    from sparklog.spark.lake.history_stream import HistoryStream

    return HistoryStream(spark, fspath(log_dir), topic, write, fspath(checkpoint), options).start()
