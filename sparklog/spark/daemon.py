"""Spark's daemon of Python workers, with sparklog's tasks loaded: `spark.python.daemon.module`.

Spark forks its Python workers from a daemon, and ends a worker that has been idle for a minute. The
worker of the next task would import PySpark, pyarrow, numba and the kernels again: a second of CPU.
A worker that is forked from this daemon has them already, and shares their memory with the daemon.
"""

import gc
import socket

import pyspark.daemon
import pyspark.worker  # what each worker runs

import sparklog.log_reader.slices
import sparklog.log_writer.topic_writer
import sparklog.record.record_batches
import sparklog.spark.read_task
import sparklog.spark.write_task  # noqa: F401 - and all of the above

run_task = pyspark.daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run the next task of a worker; return 1, which ends it, once Spark has closed its socket.

    PySpark takes a closed socket for a task that failed. It tries to send the error, fails at a
    Unix socket, and prints a traceback for each worker that Spark ends.
    """
    try:
        is_closed = not sock.recv(1, socket.MSG_PEEK)
    except OSError:
        is_closed = True
    return 1 if is_closed else run_task(sock, authenticated)


if __name__ == "__main__":
    pyspark.daemon.worker = worker
    # A worker collects garbage after each task. Frozen objects are left out, so they stay shared.
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
