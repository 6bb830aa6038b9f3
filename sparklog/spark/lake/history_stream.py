"""Streams over history: the table first, then the log, as two queries that meet at the marks.

    checkpoint/table         the checkpoint of the first query: Delta's own stream, until it has
                             read the present table
    checkpoint/handover      the version of the table that it has read, and the marks of that
                             version; put once
    checkpoint/log           the checkpoint of the second query: the log, from those marks on

If the program is killed at any point, the next call continues. Once the hand-over exists the first
query is never started again, so no row comes twice; the second query begins where the first ended,
and at the earliest offset of partitions that the table did not have, so no row is missing.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sparklog.config.connector import without_connector_options
from sparklog.config.options import BATCH_ONLY, RECORD_COLUMNS, SOURCE_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError, MissingFileError, UsageError
from sparklog.metadata.catalog import Catalog
from sparklog.model import EARLIEST, TopicDescription, TopicPartition, offsets_json
from sparklog.spark.lake.location import spark_location
from sparklog.spark.lake.table_plan import without_table
from sparklog.spark.reading.offsets import OTHERS
from sparklog.spark.requirements import require_delta
from sparklog.storage import Files, open_files
from sparklog.table.of_topic import check_copy, delta_log, table_directory

HANDOVER: Final = "handover"
_FILE_SINK: Final = "FileSink["
"""The name of Spark's sink of format parquet, orc, json, csv and text, in a query's progress."""
_SETTLED: Final = (
    *("assign", "subscribe", "subscribePattern", "columns"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
)
"""Options whose values follow from the topic and its table."""
Write = Callable[[DataFrame], DataStreamWriter]
"""Returns a stream's writer; the caller sets its checkpoint and starts it."""


class HistoryStream:
    """The two queries; see `tables.stream_history`."""

    def __init__(
        self,
        spark: SparkSession,
        log_dir: str,
        topic: str,
        write: Write,
        checkpoint: str,
        options: Mapping[str, Any],
    ) -> None:
        """Raises InvalidOptionError, UnknownTopicError, UsageError for a session without Delta."""
        self._options, settings = checked_options(options)
        require_delta(spark)
        self._spark = spark
        self._log_dir = log_dir
        self._write = write
        self._kept = open_files(checkpoint, settings)
        self._catalog = Catalog(open_files(log_dir, settings))
        self._topic = self._catalog.topic(topic)

    def start(self) -> StreamingQuery:
        """Run the first query to its end, unless it has ended; return the second, running."""
        offsets = _handed_over(self._kept, self._topic)
        if offsets is None:
            offsets = self._hand_over()
        name = self._topic.name
        begins = offsets.get(name, {})
        log = (
            self._spark.readStream.format("sparklog")
            .options(**{**self._options, "subscribe": name})
            .option("columns", ",".join(RECORD_COLUMNS))
            .option("startingOffsets", json.dumps({name: {**begins, OTHERS: EARLIEST}}))
            .load(self._log_dir)
        )
        location = spark_location(self._kept, "log")
        return checked_writer(self._write(log)).option("checkpointLocation", location).start()

    def _hand_over(self) -> Mapping[str, Any]:
        """Run the first query; store and return the offsets at which the second one begins."""
        topic = self._topic
        table = delta_log(self._catalog.files, topic, self._catalog.clock)
        snapshot = table.snapshot()
        if not snapshot.exists:
            raise without_table(topic.name)
        check_copy(self._catalog, topic, snapshot)
        self._write_table()
        version = version_read(self._kept, has_files=bool(snapshot.files))
        # A table without files gives no batch; only its marks count.
        read = snapshot if version is None else table.snapshot(version)
        check_copy(self._catalog, topic, read)
        marks = read.marks(topic.topic_id).partitions
        offsets = offsets_json(
            {TopicPartition(topic.name, number): mark.end for number, mark in marks.items()}
        )
        told = {"topic_id": topic.topic_id, "version": read.version, "offsets": offsets}
        self._kept.put_new(HANDOVER, json.dumps(told).encode())
        return offsets

    def _write_table(self) -> None:
        rows = (
            self._spark.readStream.format("delta")
            # Retention drops files, an erasure replaces files whose rows were read before.
            .option("skipChangeCommits", "true")
            .load(spark_location(self._catalog.files, table_directory(self._topic)))
            .select(*RECORD_COLUMNS)
        )
        location = spark_location(self._kept, "table")
        writer = checked_writer(self._write(rows)).option("checkpointLocation", location)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        _require_two_queries(query)


def checked_options(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the options that have a meaning here, and the storage settings among them.

    Warns about the others (SparklogWarning). Raises InvalidOptionError, also for options that are
    settled and for those of a batch: the second query would refuse these only after the first one.
    A time to start at would win over the offsets at which the table ends: rows would be missing.
    """
    kept = without_connector_options(options)
    given, settings = parse_options(SOURCE_OPTIONS, kept)
    for name in (*_SETTLED, *BATCH_ONLY):
        if given[name] is not None:
            why = "the stream has all columns of the one topic, and begins with its table"
            if name in BATCH_ONLY:
                why = "a stream has no end and reads no past"
            raise InvalidOptionError(f"option {name} is not allowed here: {why}", option=name)
    return kept, settings


def checked_writer(given: DataStreamWriter) -> DataStreamWriter:
    """Return what `write` has returned. Raises UsageError if it is no writer."""
    if not hasattr(given, "start"):  # a client of Spark Connect has another class of writers
        if hasattr(given, "stop"):  # a query that `write` has started
            given.stop()
        raise UsageError(
            f"write returned {given!r}: it must return the writer of its DataFrame "
            f"(df.writeStream…), and leave start() to stream_history"
        )
    return given


def _require_two_queries(query: StreamingQuery) -> None:
    """Raise UsageError if the sink of the first query would take the second one for the same."""
    progress = query.lastProgress
    if progress is not None and progress.sink.description.startswith(_FILE_SINK):
        raise UsageError(
            f"{progress.sink.description} counts the micro-batches of its directory: it has the "
            f"table's, and would leave out as many of the log, whose query begins at 0 again; "
            f"write with format delta, or with foreachBatch"
        )


def _handed_over(kept: Files, topic: TopicDescription) -> Mapping[str, Any] | None:
    """Return the offsets at which the second query begins; None before the first one has ended."""
    try:
        told = json.loads(bytes(kept.read(HANDOVER)))
    except MissingFileError:
        return None
    if told["topic_id"] != topic.topic_id:
        raise UsageError(
            f"the checkpoint {kept.uri} is that of another topic {topic.name!r}, which was deleted"
        )
    offsets: Mapping[str, Any] = told["offsets"]
    return offsets


def version_read(kept: Files, *, has_files: bool) -> int | None:
    """Return the version of the table that the first query has read, from its checkpoint.

    None if it had nothing to read; `has_files` says whether the table has files. Raises UsageError
    if the query was stopped before its end, which Spark does not tell who waits for it.
    """
    batches = _batches(kept, "offsets")
    if not batches and not has_files:
        return None
    last = max(batches, default=0)
    # A batch whose commit is missing was not done; an index from 0 on is one within a version.
    if last in _batches(kept, "commits"):
        offset = json.loads(bytes(kept.read(f"table/offsets/{last}")).splitlines()[-1])
        if offset["index"] < 0:
            version: int = offset["reservoirVersion"]
            return version - 1
    raise UsageError(
        "the first query, that of the table, was stopped before its end: call stream_history "
        "again with the same checkpoint, and it goes on"
    )


def _batches(kept: Files, kind: str) -> set[int]:
    names = [one.path.rpartition("/")[2] for one in kept.list(f"table/{kind}")]
    return {int(name) for name in names if name.isdecimal()}
