"""The Python that Spark runs for data sources that it finds by itself, as `format("sparklog")`.

Spark plans and commits for such a source in separate Python processes. It forks them from daemons
as it forks tasks, but from PySpark's daemon, whatever `spark.python.daemon.module` says. Only the
interpreter can be chosen: the JVM reads its path from the environment when it starts. So a script
stands for the interpreter, and starts sparklog.spark.daemon in place of PySpark's.
"""

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

VARIABLE: Final = "PYSPARK_DRIVER_PYTHON"
"""The interpreter of the sources that Spark finds; a registered source runs with the workers'."""

_SCRIPT: Final = """#!/bin/sh
# Spark's Python for data sources, with sparklog's daemon of Python workers.
case "$1 $2" in
    "-m pyspark.daemon") shift 2; exec {python} -m sparklog.spark.daemon "$@" ;;
    "-m sparklog.spark.daemon") exec {python} "$@" pandas ;;
esac
exec {python} "$@"
"""
# The daemon of tasks also loads pandas: at the end of a data source's write PySpark calls
# pyarrow.array([...]), which imports it.


@contextmanager
def sources_python(python: str, directory: str) -> Iterator[None]:
    """Let a JVM that the block starts run a script in `directory` for data sources.

    The script runs `python`; it stays after the block. Nothing is done if the user has set the
    variable, or if no file in `directory` may be executed.
    """
    script = "" if os.environ.get(VARIABLE) else _script(python, directory)
    if not os.access(script, os.X_OK):
        yield
        return
    os.environ[VARIABLE] = script
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)  # another thread may have started the same JVM


@cache
def _script(python: str, directory: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="python-", dir=directory)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(_SCRIPT.format(python=shlex.quote(python)))
    os.chmod(path, 0o700)
    return path
