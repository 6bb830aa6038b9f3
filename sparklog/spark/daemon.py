"""Spark's daemon of Python workers, with sparklog's code loaded: `spark.python.daemon.module`.

Spark forks its Python workers from a daemon, and ends a worker that has been idle for a minute. The
worker of the next task would import PySpark, pyarrow, numba and the kernels again: a second of CPU.
A worker that is forked from this daemon has them already, and shares their memory with the daemon.

    python -m sparklog.spark.daemon pyspark.worker [MODULE…]

The first argument is the module that the workers run: tasks, or a step of a data source. Further
modules are loaded too, if they are there.
"""

import gc
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final
from zipimport import zipimporter

import pyspark.daemon

from sparklog.garbage import look_at_all

_PLANS: Final = (
    "pyarrow",
    "pyspark.sql.conversion",
    "sparklog.metadata.history.files",
    "sparklog.metadata.upkeep.housekeeping",
    "sparklog.spark.datasource",
)
_COMMITS: Final = (
    "sparklog.metadata.history.files",
    "sparklog.metadata.upkeep.housekeeping",
    "sparklog.spark.writing.writers",
)
LOADED: Final = {
    "pyspark.worker": (
        "sparklog.log_reader.slices",
        "sparklog.log_writer.topic_writer",
        "sparklog.record.record_batches",
        "sparklog.spark.reading.batch_reader",
        "sparklog.spark.reading.read_task",
        "sparklog.spark.reading.stream_reader",
        "sparklog.spark.writing.writers",
    ),
    "pyspark.sql.worker.lookup_data_sources": ("sparklog.spark.datasource",),
    "pyspark.sql.worker.create_data_source": ("sparklog.spark.datasource",),
    "pyspark.sql.worker.plan_data_source_read": (*_PLANS, "sparklog.spark.reading.batch_reader"),
    "pyspark.sql.worker.write_into_data_source": (*_PLANS, "sparklog.spark.writing.writers"),
    "pyspark.sql.worker.commit_data_source_write": _COMMITS,
    "pyspark.sql.worker.python_streaming_sink_runner": _COMMITS,
    "pyspark.sql.streaming.python_streaming_source_runner": (
        *_PLANS,
        "sparklog.spark.reading.stream_reader",
    ),
}
"""By the name of the module that the workers run: the modules that are loaded with it."""

KEPT_MAX: Final = 20_000
"""A worker that keeps more objects from one task to the next exempts them from collections."""
EXEMPT_MAX: Final = 1_000_000
"""A worker looks at its exempted objects, the daemon's among them, when they are more than this,
then each time that they have doubled."""
_next_look = [EXEMPT_MAX]

run_task = pyspark.daemon.worker


def load(worker_module: str, further: Sequence[str] = ()) -> None:
    """Import a module of LOADED and those listed with it, and those of `further` that exist."""
    if worker_module in LOADED:
        for name in (worker_module, *LOADED[worker_module]):
            import_module(name)
    if LOADED.get(worker_module) == _COMMITS:
        import_module("sparklog.metadata.codec.entry").engine()  # looks up sparklog's version, once
    for name in further:
        with suppress(ImportError):
            import_module(name)


def forget_archives() -> None:
    """Forget the finders of zip archives, which the next import from one makes again.

    The first task of each worker makes all finders read their archives again. For pyspark.zip there
    is a finder for each package of PySpark, which takes 0.1 s of CPU.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run the next task of a worker; return 1, which ends it, once Spark has closed its socket.

    PySpark takes a closed socket for a task that failed. It tries to send the error, fails at a
    Unix socket, and prints a traceback for each worker that Spark ends. It does the same for a task
    of which Spark has read enough, as in `limit` and `isEmpty`.
    """
    try:
        is_closed = not sock.recv(1, socket.MSG_PEEK)
    except OSError:
        is_closed = True
    if is_closed:
        return 1
    try:
        code = run_task(sock, authenticated)
    except ConnectionError:
        return 1
    exempt_kept()
    return code


def exempt_kept() -> None:
    """Exempt the objects that a task has left from later collections, if they are many.

    A worker keeps the metadata of the topics that it has read, and Spark collects garbage after
    each task. With 10,000 partitions to look at, that took most of the time of their 10,000 tasks.
    Now and then it looks at all objects: this frees cycles that were exempted while in use.
    """
    gc.collect()
    if len(gc.get_objects()) > KEPT_MAX:
        gc.freeze()
        if gc.get_freeze_count() > _next_look[0]:
            look_at_all()
            _next_look[0] = max(EXEMPT_MAX, 2 * gc.get_freeze_count())


if __name__ == "__main__":
    load(sys.argv[1], sys.argv[2:])
    pyspark.daemon.worker = worker
    forget_archives()
    # A worker collects garbage after each task. Frozen objects are left out, so they stay shared,
    # until a worker looks at all (`exempt_kept`).
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
