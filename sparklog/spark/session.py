"""A SparkSession with the right settings for sparklog."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from typing import Any

from pyspark.sql import SparkSession

from sparklog.author import workers_named
from sparklog.errors import UsageError
from sparklog.spark.connect import is_connect
from sparklog.spark.source_python import sources_python

DAEMON = "sparklog.spark.daemon"
SOCKETS = "spark.python.unix.domain.socket"
TEMPORARY_PATH_MAX = 40
"""A socket's path adds 61 characters, of our directory and of Spark's name; macOS allows 103."""
DEFAULTS = {
    # Batches of 100,000 rows are 8 % faster than Spark's 10,000; 500,000 is slower.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.ui.showConsoleProgress": "true",
}


def session(app_name: str = "sparklog", **conf: Any) -> SparkSession:
    """Return the running session, or start one; `conf` holds Spark's keys (`**{"spark.x": …}`).

    Without a master given here, by spark-submit or in SPARK_MASTER, Spark runs on all cores of this
    machine. Workers use this interpreter, unless PYSPARK_PYTHON names another one: that one needs
    sparklog, pyarrow and the same version of Python. Raises UsageError if it has no pyarrow.

    With a local master Spark forks its workers, also those of data sources
    (sparklog.spark.source_python), from a daemon that has loaded their modules
    (sparklog.spark.daemon), and talks to them through Unix domain sockets (`socket_settings`).
    """
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.appName(app_name)
    settings = {"spark.pyspark.python": python, **DEFAULTS, **conf}
    if "spark.master" not in conf and "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings["spark.master"] = os.environ.get("SPARK_MASTER") or "local[*]"
    is_local = settings.get("spark.master", "").startswith("local")
    if is_local:
        # On a cluster sparklog may reach the workers with the job, after their daemon has started.
        settings = {"spark.python.daemon.module": DAEMON, **socket_settings(), **settings}
    for key, value in settings.items():
        builder = builder.config(key, str(value))
    with ExitStack() as stack:
        if is_local and settings["spark.python.daemon.module"] == DAEMON:
            stack.enter_context(sources_python(python, _private_directory()))
        stack.enter_context(workers_named(f"Spark {app_name}"))
        spark = builder.getOrCreate()
    require_workers(spark)
    return spark


def socket_settings() -> dict[str, str]:
    """Return Spark's settings for Unix domain sockets between the JVM and its Python workers.

    Over TCP the JVM writes in small pieces, and each task waits 40 ms for a delayed acknowledgement
    (docs/decisions/0055). Spark asks for no secret at a Unix socket, so the sockets are in a
    directory that only this user may enter. Returns no settings if the path of a socket would be
    too long for the kernel.
    """
    if len(tempfile.gettempdir()) > TEMPORARY_PATH_MAX:
        return {}
    return {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": _private_directory()}


@cache
def _private_directory() -> str:
    directory = tempfile.mkdtemp(prefix="sparklog-")
    atexit.register(_remove, directory, os.getpid())
    return directory


def _remove(directory: str, owner: int) -> None:
    """Remove the directory of this process; a forked child leaves its parent's alone."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def require_workers(spark: SparkSession) -> None:
    """Refuse a session of this machine whose workers run a Python without pyarrow.

    Spark would report it as a ModuleNotFoundError of a worker, or not at all. Raises UsageError. A
    server of Spark Connect does not show which Python its workers run.
    """
    if is_connect(spark):
        return
    context = spark.sparkContext
    if (context.master or "").startswith("local") and not _has_pyarrow(context.pythonExec):
        raise _without_pyarrow(context.pythonExec, sys.executable)


def require_pyarrow() -> None:
    """Refuse to run in a worker of Spark's whose Python has no pyarrow. Raises UsageError.

    `require_workers` has not checked a session that has used only `format("sparklog")`.
    """
    if find_spec("pyarrow") is None:
        raise _without_pyarrow(sys.executable, "the Python that has sparklog and its dependencies")


def _without_pyarrow(worker: str, right: str) -> UsageError:
    return UsageError(
        f"Spark's workers run {worker!r}, which has no pyarrow: before the session is started set "
        f"the environment variable PYSPARK_PYTHON to {right} (the configuration "
        f"spark.pyspark.python is for spark-submit only), or start it by sparklog.spark.session"
    )


@cache
def _has_pyarrow(python: str) -> bool:
    if python == sys.executable:
        return True
    code = "import importlib.util; exit(importlib.util.find_spec('pyarrow') is None)"
    try:
        return (
            subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0
        )
    except OSError:
        return False
