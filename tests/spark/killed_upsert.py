"""A driver with an upsert_table that is killed (-9), and the one that comes after it.

python -m tests.spark.killed_upsert LOG_DIR TABLE CHECKPOINT merged|SECONDS|never

    merged    it kills itself between its MERGE and Spark's commit of the micro-batch
    SECONDS   its process group, the JVM too, is killed so long after the first MERGE has begun
    never     it reads to the end, and prints the table as JSON: partition, key, offset, value
"""

import json
import os
import signal
import sys
from threading import Timer

from pyspark.sql import DataFrame

from sparklog.spark import session, upsert_table
from sparklog.spark.upsert import Merge
from tests.spark.conftest import SETTINGS, delta_settings

BATCH = 5
"""So many records has a micro-batch at most."""


def main(log_dir: str, table: str, checkpoint: str, moment: str) -> None:
    """Run until killed, or to the end."""
    spark = session("killed", **SETTINGS, **delta_settings())
    spark.sparkContext.setLogLevel("OFF")
    if moment != "never":
        make_deadly(moment)
    writer = upsert_table(spark, log_dir, "t", table, maxOffsetsPerTrigger=BATCH)
    writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    rows = spark.sql(f"SELECT partition, string(key), offset, string(value) FROM {table}")
    print(json.dumps([tuple(row) for row in rows.collect()]))


def make_deadly(moment: str) -> None:
    """Let the driver be killed after the end, or the begin, of its first MERGE."""
    merge = Merge.__call__

    def merged(self: Merge, batch: DataFrame, batch_id: int) -> None:
        merge(self, batch, batch_id)
        os.kill(os.getpid(), signal.SIGKILL)

    def begun(self: Merge, batch: DataFrame, batch_id: int) -> None:
        timer = Timer(float(moment), os.killpg, (os.getpgid(0), signal.SIGKILL))
        timer.daemon = True
        timer.start()
        Merge.__call__ = merge  # type: ignore[method-assign] # one timer is enough
        merge(self, batch, batch_id)

    if moment == "merged":
        Merge.__call__ = merged  # type: ignore[method-assign] # of this process
    else:
        Merge.__call__ = begun  # type: ignore[method-assign] # of this process


if __name__ == "__main__":
    main(*sys.argv[1:])
