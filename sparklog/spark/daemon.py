"""Spark's daemon of Python workers, with sparklog's tasks loaded: `spark.python.daemon.module`.

Spark forks its Python workers from a daemon and ends those that have been idle for a minute, so the
next task's worker would import PySpark, pyarrow, numba and the kernels anew: a second of CPU. A
worker that is forked from this daemon has them. Its pages are the daemon's own until they change.
"""

import gc

import pyspark.worker  # noqa: F401 - what each worker runs
from pyspark.daemon import manager

import sparklog.log_reader.slices
import sparklog.log_writer.topic_writer
import sparklog.record.record_batches
import sparklog.spark.read_task
import sparklog.spark.write_task  # noqa: F401 - and all of the above

if __name__ == "__main__":
    # A worker collects garbage after each task: what is here is none, and stays shared.
    gc.collect()
    gc.freeze()
    manager()
