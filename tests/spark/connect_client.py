"""A client of Spark Connect, whose server is started with it: `… connect_client LOG_DIR`.

The log dir has topics `t`, with records, and `copy`. The last line printed is JSON.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from sparklog.errors import SparklogError
from sparklog.spark import consume, produce, register
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


def main(log_dir: str) -> None:
    """Do what a client may do."""
    builder = SparkSession.builder.remote("local[1]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    df = consume(spark, log_dir, subscribe="t")
    answers = {
        "settled": df.count(),
        "unknown": refusal(consume, spark, log_dir, subscribe="tt"),
        "produce": refusal(produce, numbers(spark, 3), log_dir, "t"),
    }
    numbers(spark, 3).write.format("sparklog").option("topic", "t").mode("append").save(log_dir)
    answers |= {"after a write": df.count(), "copied": copied(spark, log_dir)}
    print(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
