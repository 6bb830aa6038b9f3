"""upsert_table(): a stream keeps a Delta table of the newest record of each (partition, key).

micro-batch     reduced to its newest records, tombstones too
MERGE           a greater offset wins; a tombstone deletes; a tombstone of no row is nothing
txn             the query's id and the batch's are Delta's txnAppId and txnVersion, in the same
                commit: a batch that Spark runs again changes nothing, also when somebody has
                deleted rows since
"""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from sparklog.config.connector import without_connector_options
from sparklog.config.options import BATCH_ONLY, SOURCE_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError, UsageError
from sparklog.spark.connect import is_connect
from sparklog.spark.newest import KEY, committed_unless_given, newest
from sparklog.spark.schema import output_schema
from sparklog.storage import open_files

PROPERTIES: Final = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
}
_QUERY_ID: Final = "sql.streaming.queryId"
_TXN: Final = "spark.databricks.delta.write"
_BATCH: Final = "sparklog_newest"


def upsert_table(
    spark: SparkSession, log_dir: str | PathLike[str], topic: str, table: str, **options: Any
) -> DataStreamWriter:
    """Return the writer of the stream that keeps `table`; the caller configures and starts it.

    `table` is a name in Spark's catalog, or delta.`path`. If it does not exist, this call creates
    it with the columns of a topic's table, change data feed and deletion vectors. Its rows are
    those of `latest` over the records that the stream has read: the newest record of each
    (partition, key), without tombstones and records without a key. The stream begins at the log
    start, unless `startingOffsets` says otherwise, and is read_committed; `options` are those of a
    streaming read, without those for topics and columns. Give the writer a `checkpointLocation`; a
    table belongs to one checkpoint.

    Raises UnknownTopicError and InvalidOptionError before the table is created; UsageError for a
    session without delta-spark, for a client of Spark Connect, and for a table with other columns.
    """
    if is_connect(spark):
        raise UsageError("upsert_table merges in the driver: a Spark Connect client has none")
    _check(fspath(log_dir), topic, options)
    from sparklog.spark.requirements import require_delta
    from sparklog.table.schema import COLUMNS

    require_delta(spark)
    _make(spark, table, output_schema(COLUMNS))
    given = {"startingOffsets": "earliest", **committed_unless_given(options)}
    stream = (
        spark.readStream.format("sparklog")
        .options(**given)
        .option("subscribe", topic)
        .option("columns", ",".join(COLUMNS))
        .load(fspath(log_dir))
    )
    return stream.writeStream.foreachBatch(Merge(table))


def _check(log_dir: str, topic: str, options: Mapping[str, Any]) -> None:
    """Refuse unknown and settled options, and a topic that is not there."""
    from sparklog.metadata.catalog import Catalog

    given, settings = parse_options(SOURCE_OPTIONS, without_connector_options(options))
    for name in ("assign", "columns", "subscribe", "subscribePattern", *BATCH_ONLY):
        if given[name] is not None:
            why = "a stream has no end and reads no past"
            if name not in BATCH_ONLY:
                why = "the table has all columns of the one topic"
            raise InvalidOptionError(f"option {name} is not allowed here: {why}", option=name)
    Catalog(open_files(log_dir, settings)).topic(topic)


def _make(spark: SparkSession, table: str, wanted: StructType) -> None:
    columns = ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in wanted)
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING delta TBLPROPERTIES ({properties})"
    )
    found = spark.table(table).schema
    if [(one.name, one.dataType) for one in found] != [(one.name, one.dataType) for one in wanted]:
        raise UsageError(
            f"table {table} has other columns than a table of newest records: "
            f"{found.simpleString()}; it must have {wanted.simpleString()}"
        )


class Merge:
    """The function of `foreachBatch`: merges a micro-batch into the table."""

    def __init__(self, table: str) -> None:
        same = " AND ".join(f"t.`{name}` = s.`{name}`" for name in KEY)
        self.statement = (
            f"MERGE INTO {table} t USING {_BATCH} s ON {same} "
            "WHEN MATCHED AND s.`offset` > t.`offset` AND s.`value` IS NULL THEN DELETE "
            "WHEN MATCHED AND s.`offset` > t.`offset` THEN UPDATE SET * "
            "WHEN NOT MATCHED AND s.`value` IS NOT NULL THEN INSERT *"
        )

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge the batch, unless it was merged before."""
        spark = batch.sparkSession  # the query's own: its settings are nobody else's
        query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
        spark.conf.set(f"{_TXN}.txnAppId", f"sparklog/{query_id}")
        spark.conf.set(f"{_TXN}.txnVersion", batch_id)
        newest(batch).createOrReplaceTempView(_BATCH)
        spark.sql(self.statement)
