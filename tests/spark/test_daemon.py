"""The daemon of Spark's Python workers, as a session starts it and spoken to as the JVM does."""

import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyspark.sql import SparkSession

from tests.spark.frames import numbers

pytestmark = pytest.mark.spark


def test_an_idle_worker_that_spark_ends_prints_nothing() -> None:
    with TemporaryDirectory(dir="/tmp") as sockets:  # a socket's path is short
        told = {
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": sockets,
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
            "SPARK_REUSE_WORKER": "1",
        }
        running = subprocess.Popen(
            [sys.executable, "-m", "sparklog.spark.daemon", "pyspark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **told},
        )
        assert running.stdout is not None
        path = running.stdout.read(int.from_bytes(running.stdout.read(4)))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(path)
            worker = int.from_bytes(spark.recv(4))
        with suppress(ProcessLookupError):  # its end
            while True:
                os.kill(worker, 0)
                time.sleep(0.01)
        _, printed = running.communicate(timeout=60)
    assert printed == b""


def test_the_steps_of_the_data_source_are_forked_from_it(spark: SparkSession, log_dir: str) -> None:
    rows = numbers(spark, 10)
    rows.write.format("sparklog").option("topic", "t").mode("append").save(log_dir)
    assert spark.read.format("sparklog").option("subscribe", "t").load(log_dir).count() == 10

    daemons = {line.partition(" -m ")[2] for line in commands_below(os.getpid())}
    steps = ("create_data_source", "plan_data_source_read", "write_into_data_source")
    for step in (*steps, "commit_data_source_write"):
        assert f"sparklog.spark.daemon pyspark.sql.worker.{step}" in daemons


def commands_below(pid: int) -> list[str]:
    """The command lines of all processes that a process started, and of theirs."""
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parent = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            command = path.joinpath("cmdline").read_text(errors="replace")
            children[parent].append((int(path.name), command.rstrip("\0").replace("\0", " ")))
    below, found = [pid], []
    while below:
        for child, command in children[below.pop()]:
            below.append(child)
            found.append(command)
    return found
