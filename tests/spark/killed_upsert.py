"""A driver with an upsert_table that kills itself (-9) between its MERGE and Spark's commit.

python -m tests.spark.killed_upsert LOG_DIR TABLE CHECKPOINT
"""

import os
import signal
import sys

from pyspark.sql import DataFrame

from sparklog.spark import session, upsert_table
from sparklog.spark.upsert import Merge
from tests.spark.conftest import SETTINGS, delta_settings


def main(log_dir: str, table: str, checkpoint: str) -> None:
    """Run until killed."""
    spark = session("killed", **SETTINGS, **delta_settings())
    spark.sparkContext.setLogLevel("OFF")
    merge = Merge.__call__

    def deadly(self: Merge, batch: DataFrame, batch_id: int) -> None:
        merge(self, batch, batch_id)
        os.kill(os.getpid(), signal.SIGKILL)

    Merge.__call__ = deadly  # type: ignore[method-assign] # of this process
    writer = upsert_table(spark, log_dir, "t", table).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
