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

from sparklog.errors import MissingFileError, UsageError
from sparklog.model import TopicPartition
from sparklog.record.record_batches import MAX_TIMESTAMP_MS
from sparklog.spark.connect import is_connect
from sparklog.spark.history_plan import TablePart, TimeBound
from sparklog.spark.schema import output_schema
from sparklog.table.schema import COLUMNS

DELTA_JAR: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
DELTA_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_EXTENSIONS: Final = "spark.sql.extensions"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"


def require_delta(spark: SparkSession) -> None:
    """Raise UsageError, which names the jars and settings, unless the session reads Delta tables.

    A server of Spark Connect does not show which classes it has.
    """
    has_settings = (
        DELTA_EXTENSION in (spark.conf.get(_EXTENSIONS, "") or "")
        and spark.conf.get(_CATALOG, "") == DELTA_CATALOG
    )
    if has_settings and (is_connect(spark) or _has_class(spark, DELTA_CATALOG)):
        return
    raise UsageError(
        f"the table of a topic is read through delta-spark, which this session lacks: start it "
        f"with spark.jars.packages={DELTA_JAR}, {_EXTENSIONS}={DELTA_EXTENSION} and "
        f"{_CATALOG}={DELTA_CATALOG}; history=log reads the log without them"
    )


FILE_SYSTEMS: Final = {
    "s3a": ("org.apache.hadoop.fs.s3a.S3AFileSystem", "org.apache.hadoop:hadoop-aws:3.5.0"),
    "abfss": (
        "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
        "org.apache.hadoop:hadoop-azure:3.5.0",
    ),
    "gs": (
        "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.31",
    ),
}
"""By scheme the class of Hadoop that reads it, and the jar that has it; 3.5.0 is Spark 4.2's."""


def require_file_system(spark: SparkSession, location: str) -> None:
    """Raise UsageError, which names the jar, unless the session has Hadoop's class for a location.

    A server of Spark Connect does not tell which classes it has.
    """
    scheme = location.partition("://")[0]
    name, jar = FILE_SYSTEMS.get(scheme, ("", ""))
    if name and not is_connect(spark) and not _has_class(spark, name):
        raise UsageError(
            f"{location}: this session cannot read {scheme}://: start it with {jar} among "
            f"spark.jars.packages, and with credentials (docs/table.md, Object stores); "
            f"history=log reads the log without them"
        )


def _has_class(spark: SparkSession, name: str) -> bool:
    """Whether the JVM has a class; PySpark has no public call for it."""
    try:
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr] # noqa: SLF001
        loader.loadClass(name)
    except Exception:  # noqa: BLE001 - py4j raises whatever Java does
        return False
    return True


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
    spark: SparkSession,
    log: DataFrame | None,
    parts: Sequence[TablePart],
    columns: Sequence[str],
) -> DataFrame:
    """Return the union of the log's rows and parts of tables; one of them may be missing."""
    require_delta(spark)
    for part in parts:
        require_file_system(spark, part.location)
    frames = [table_rows(spark, part, columns) for part in parts]
    return reduce(DataFrame.unionAll, frames if log is None else [*frames, log])


ORDER: Final = ("topic", "partition", "offset")
"""The columns by which rows are put in order."""


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
