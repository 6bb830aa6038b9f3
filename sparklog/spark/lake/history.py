"""A read of the table, and of table and log, as one DataFrame.

The JVM reads the table, at one version; Python reads the log. Both have the same columns, so Spark
pushes a filter through the union to the statistics of Parquet and of Delta.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import lit, when

from sparklog.errors import MissingFileError
from sparklog.model import TopicPartition
from sparklog.record.record_batches import MAX_TIMESTAMP_MS
from sparklog.spark.lake.table_part import TablePart
from sparklog.spark.lake.table_plan import TimeBound
from sparklog.spark.requirements import require_delta, require_file_system
from sparklog.spark.schema import output_schema
from sparklog.table.schema import COLUMNS

ORDER: Final = ("topic", "partition", "offset")
"""The columns by which rows are put in order."""


def table_rows(spark: SparkSession, part: TablePart, columns: Sequence[str]) -> DataFrame:
    """Return a part of a table, in no order; all rows are of one topic, which is not read."""
    whole = table_at(spark, part)
    condition = part.condition()
    found = whole if condition is None else whole.filter(condition)
    return found.select(*(_topic(part.topic) if one == "topic" else one for one in columns))


def _topic(name: str) -> Column:
    """Return the column `topic` as a constant, nullable as that of a log is."""
    constant = lit(name)
    return when(constant.isNotNull(), constant).alias("topic")


def table_at(spark: SparkSession, part: TablePart) -> DataFrame:
    """Return all of a table at the part's version.

    Its files are plain Parquet (a table with deletion vectors or column mapping is not sound), so
    few of them are read without Delta, whose planning takes a second or more for each action.

    Raises MissingFileError for files that somebody has deleted; a server of Spark Connect, and
    delta-spark, say so when they read them.
    """
    if part.files:
        return _files(spark, part)
    return spark.read.format("delta").option("versionAsOf", part.version).load(part.location)


def _files(spark: SparkSession, part: TablePart) -> DataFrame:
    try:
        return spark.read.schema(output_schema(COLUMNS)).parquet(*part.files)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise MissingFileError(
            f"the table of topic {part.topic!r} lacks a file: {error.getMessage()}; `sparklog jobs "
            f"build_table --rebuild --topic {part.topic}` builds it anew, history=log reads the log"
        ) from None


def stitched(
    spark: SparkSession, log: DataFrame | None, parts: Sequence[TablePart], columns: Sequence[str]
) -> DataFrame:
    """Return the union of the log's rows and parts of tables; one of them may be missing."""
    require_delta(spark)
    for part in parts:
        require_file_system(spark, part.location)
    frames = [table_rows(spark, part, columns) for part in parts]
    return reduce(DataFrame.unionAll, frames if log is None else [*frames, log])


def in_order(df: DataFrame) -> DataFrame:
    """Return rows that have the columns ORDER, each partition in the order of its offsets.

    Costs a shuffle.
    """
    return df.repartition("topic", "partition").sortWithinPartitions(*ORDER)


def offsets_at(
    spark: SparkSession, bounds: Sequence[TimeBound]
) -> Mapping[tuple[TopicPartition, int], int]:
    """Return the first offset at or after each time, by partition and time; reads two columns.

    A time has no answer if no record is at or after it.
    """
    found: dict[tuple[TopicPartition, int], int] = {}
    places: dict[tuple[str, int], list[TimeBound]] = {}
    for one in bounds:
        places.setdefault((one.key.topic, one.timestamp), []).append(one)
    for (topic, timestamp), some in places.items():
        time_ms = min(timestamp, MAX_TIMESTAMP_MS)
        numbers = ", ".join(str(one.key.partition) for one in some)
        rows: Any = (
            table_at(spark, some[0].part)
            .filter(f"`partition` IN ({numbers}) AND `timestamp` >= timestamp_millis({time_ms})")
            .groupBy("partition")
            .agg({"offset": "min"})
            .collect()
        )
        for number, offset in rows:
            found[TopicPartition(topic, number), timestamp] = offset
    return found
