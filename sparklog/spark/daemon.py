"""Spark's daemon of Python workers, with sparklog's tasks loaded: `spark.python.daemon.module`.

Spark forks its Python workers from a daemon, and ends a worker that has been idle for a minute. The
worker of the next task would import PySpark, pyarrow, numba and the kernels again: a second of CPU.
A worker that is forked from this daemon has them already, and shares their memory with the daemon.
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
    # A worker collects garbage after each task. Frozen objects are left out, so they stay shared.
    gc.collect()
    gc.freeze()
    manager()
