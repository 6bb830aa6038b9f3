"""The one Spark session of a run, and the input that every writer gets."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.figures import elapsed_s
from sparklog.spark import session
from tests.kafka.jars import CONNECTOR, DELTA, jars

CORES = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of load; `records` rows of `value_bytes` each, into `partitions`."""

    name: str
    records: int
    value_bytes: int = 100
    partitions: int = 4
    codec: str = "none"
    flush: str = "fsync"


@contextmanager
def spark_session(**conf: str) -> Iterator[SparkSession]:
    """sparklog's own session with the connector's jars, stopped at the end with its JVM.

    Worker processes find `bench` because the checkout is on their path.
    """
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    jar_files = ",".join(str(jar) for jar in (*jars(DELTA), *jars(CONNECTOR)))
    settings = {
        "spark.master": f"local[{CORES}]",
        "spark.jars": jar_files,
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **conf,
    }
    spark = session("sparklog bench", **settings)
    try:
        yield spark
    finally:
        spark.stop()


def drain(df: DataFrame) -> None:
    """Read every row and column, and keep none."""
    df.write.format("noop").mode("overwrite").save()


def seconds_of(work: Callable[[], object]) -> float:
    """How long some work takes; the disk is settled before it."""
    os.sync()
    return elapsed_s(work)


def rows(spark: SparkSession, variant: Variant) -> DataFrame:
    """The input: keys of up to 5 bytes; values of one size.

    Compressed variants get a value that is a sixth random, as JSON with an identifier would be.
    """
    size = variant.value_bytes
    constant = f"repeat('x', {size})"
    mixed = f"concat(hex(xxhash64(id)), repeat('x', {size - 16}))"
    value = constant if variant.codec == "none" else f"rpad({mixed}, {size}, 'x')"
    return spark.range(variant.records).selectExpr(
        "cast(cast(id % 100000 as string) as binary) key", f"cast({value} as binary) value"
    )
