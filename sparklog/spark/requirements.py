"""Jars and settings that a session needs for tables; the errors name the missing ones.

A server of Spark Connect does not tell which classes it has. There only the settings are checked,
and a missing class is an error of the read.
"""

from typing import Final

from pyspark.sql import SparkSession

from sparklog.errors import UsageError
from sparklog.spark.connect import is_connect

DELTA_JAR: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
DELTA_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_EXTENSIONS: Final = "spark.sql.extensions"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"


def require_delta(spark: SparkSession) -> None:
    """Raise UsageError with the jars and settings unless the session reads Delta tables."""
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
"""By scheme the class of Hadoop that reads it, and the jar of the class, as Spark 4.2 needs it."""


def require_file_system(spark: SparkSession, location: str) -> None:
    """Raise UsageError with the jar unless the session has Hadoop's class for a location."""
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
