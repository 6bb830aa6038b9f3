"""A client of Spark Connect, whose server is started with it: `… connect_client LOG_DIR`.

The log dir has topics `t`, with records, `copy`, and two with tables: `old`, and `changed`, whose
table is no copy of its log any more. The last line printed is JSON.
"""

import io
import json
import sys
import warnings
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

from sparklog.errors import SparklogError, UnknownTopicError
from sparklog.spark import consume, create_table, produce, register
from tests.spark.conftest import delta_settings
from tests.spark.frames import numbers

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def refusal(call: Any, *arguments: Any, **options: Any) -> str:
    """The error that a call raises, and its class."""
    try:
        call(*arguments, **options)
    except SparklogError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def copied(spark: SparkSession, log_dir: str) -> int:
    """Copy topic `t` by a stream; return how many records `copy` has then."""
    options = {"subscribe": "t", "startingOffsets": "earliest"}
    stream = spark.readStream.format("sparklog").options(**options).load(log_dir)
    writer = stream.select("value").writeStream.format("sparklog").option("topic", "copy")
    writer = writer.option("checkpointLocation", f"{log_dir}-checkpoint")
    writer.trigger(availableNow=True).start(log_dir).awaitTermination()
    return spark.read.format("sparklog").option("subscribe", "copy").load(log_dir).count()


def plan_of_a_join(spark: SparkSession, log: DataFrame) -> str:
    """How Spark joins a log with a large table."""
    large = spark.range(10_000_000).selectExpr("id offset")
    told = io.StringIO()
    with redirect_stdout(told):
        log.join(large, "offset").explain()
    return told.getvalue()


def history(spark: SparkSession, log_dir: str) -> dict[str, Any]:
    """What is read of the topics that have tables."""
    options = {"subscribe": "old", "includeHeaders": "true"}
    log = sorted(map(str, consume(spark, log_dir, **options).collect()))
    auto = consume(spark, log_dir, history="auto", **options)
    in_order = consume(spark, log_dir, history="auto", ordered="true", **options)
    since = {"assign": '{"old": [0]}', "startingTimestamp": 0, "endingOffsets": '{"old": {"0": 1}}'}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        changed = consume(spark, log_dir, subscribe="changed", history="auto").count()
    return {
        "auto is log": sorted(map(str, auto.collect())) == log,
        "rows": len(log),
        "in order": [row.offset for row in in_order.collect()],
        "of the table": consume(spark, log_dir, subscribe="old", history="table").count(),
        "by time": consume(spark, log_dir, history="table", **since).count(),
        "no table": refusal(consume, spark, log_dir, subscribe="t", history="table"),
        "changed": changed,
        "told": [str(one.message) for one in told],
    }


def named(spark: SparkSession, log_dir: str) -> int:
    """The rows of a table in the catalog, of a client that cannot look into the log dir."""
    with patch("sparklog.metadata.catalog.Catalog.topic", side_effect=UnknownTopicError("old")):
        create_table(spark, "old", log_dir, "old")
    return spark.table("old").count()


def main(log_dir: str) -> None:
    """Do what a client may do."""
    builder = SparkSession.builder.remote("local[1]")
    for name, value in (SETTINGS | delta_settings()).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    df = consume(spark, log_dir, subscribe="t")
    answers = history(spark, log_dir) | {
        "settled": df.count(),
        "join": plan_of_a_join(spark, df),
        "unknown": refusal(consume, spark, log_dir, subscribe="tt"),
        "by name": named(spark, log_dir),
        "produce": refusal(produce, numbers(spark, 3), log_dir, "t"),
    }
    numbers(spark, 3).write.format("sparklog").option("topic", "t").mode("append").save(log_dir)
    answers |= {"after a write": df.count(), "copied": copied(spark, log_dir)}
    print(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
