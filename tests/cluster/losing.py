"""A clustered produce that loses an executor, and its part of the shuffle, in the middle.

    python -m tests.cluster.losing MASTER LOG_DIR

The rows have no keys, and come in another order whenever their task runs again.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparklog.spark import produce, session
from tests.cluster.driver import CONF
from tests.spark.frames import numbers

RECORDS = 4000
TASKS = 8
PARTITIONS = 40
FILES_BEFORE = 8
SETTINGS = {
    "spark.eventLog.enabled": "false",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
}


def in_some_order(batches: Iterator[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """The rows in an order drawn anew, as after a shuffle; notes that a task runs, and where."""
    executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
    Path(folder, f"run-{executor}-{time.monotonic_ns()}").touch()
    for batch in batches:
        yield batch.take(np.random.default_rng().permutation(batch.num_rows))


def kill_one(log_dir: str, folder: str) -> None:
    """Kill an executor when some partitions are written."""
    while len(list(Path(log_dir).rglob("*.log"))) < FILES_BEFORE:
        time.sleep(0.01)
    first = min(Path(folder).glob("run-*"))
    os.kill(int(first.name.split("-")[1]), signal.SIGKILL)


def main(master: str, log_dir: str) -> None:
    """Produce; print how many tasks of the first stage ran."""
    folder = str(Path(log_dir).parent)
    spark = session("losing", **{**CONF, **SETTINGS, "spark.master": master})
    rows = numbers(spark, RECORDS, tasks=TASKS)
    df = rows.mapInArrow(partial(in_some_order, folder=folder), "value string")
    threading.Thread(target=kill_one, args=(log_dir, folder), daemon=True).start()
    # Small batches: a partitioner that looked at the rows before would often change its mind.
    produce(df, log_dir, "t", clustered="true", flush="none", **{"batch.size": 64})
    print(len(list(Path(folder).glob("run-*"))))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
