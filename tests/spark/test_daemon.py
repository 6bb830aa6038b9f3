"""The daemon of Spark's Python workers, spoken to as Spark's JVM does."""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from tempfile import TemporaryDirectory

import pytest

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
