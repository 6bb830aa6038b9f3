"""A job as a user writes it, run on a cluster: produces numbers and reads them back.

    python -m tests.cluster.driver MASTER EVENT_LOG_DIR LOG_DIR…

The last line printed is JSON: for each log dir what was answered and what was read.
"""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sparklog.spark import consume, produce, session
from tests.kafka.jars import SHORT_LIVED
from tests.spark.frames import numbers

RECORDS = 1000
FEW = 10
CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
    "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


def storage(log_dir: str) -> dict[str, str]:
    """The storage settings of the driver's environment, as options: so its keys travel, too."""
    given = {f"storage.{name}": value for name, value in os.environ.items() if "AWS_" in name}
    return given if log_dir.startswith("s3://") else {}


def job(spark: SparkSession, log_dir: str) -> dict[str, int]:
    """Produce, once with tasks that fail at first, and read back."""
    given = storage(log_dir)
    result = produce(numbers(spark, RECORDS, "value key", tasks=8), log_dir, "t", **given)
    few = numbers(spark, FEW, tasks=1)
    tried_again = produce(few, log_dir, "t", partitioner="tests.spark.frames:failing_once", **given)
    read = consume(spark, log_dir, subscribe="t", includeHeaders=True, **given)
    read.explain("extended")
    print(repr(read))
    found = read.agg(
        f.count("*").alias("count"),
        f.count_distinct("partition", "offset").alias("places"),
        f.sum(f.col("value").cast("string").cast("long")).alias("sum"),
    ).first()
    assert found is not None
    return {"produced": result.count, "tried_again": tried_again.count, **found.asDict()}


def main(master: str, event_logs: str, *log_dirs: str) -> None:
    """Run the job on each log dir."""
    places = {"spark.master": master, "spark.eventLog.dir": event_logs}
    spark = session("on a cluster", **CONF, **places)
    answers = [job(spark, log_dir) for log_dir in log_dirs]
    print(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
