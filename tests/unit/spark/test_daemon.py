"""What the daemon of Spark's Python workers adds to PySpark's."""

import socket
from typing import Any

import pytest

from sparklog.spark import daemon


def pair() -> tuple[socket.socket, socket.socket]:
    """A worker's socket, and Spark's."""
    return socket.socketpair()


class TestWorker:
    def test_runs_the_task_that_spark_sends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def run_task(sock: Any, authenticated: bool) -> tuple[bytes, bool]:
            return sock.recv(4), authenticated

        monkeypatch.setattr(daemon, "run_task", run_task)
        ours, spark = pair()
        with ours, spark:
            spark.send(b"task")
            found: Any = daemon.worker(ours, True)
        assert found == (b"task", True)

    def test_ends_when_spark_closes_the_socket(self) -> None:
        ours, spark = pair()
        with ours:
            spark.close()
            assert daemon.worker(ours, True) == 1

    def test_ends_when_the_socket_breaks(self) -> None:
        ours, spark = pair()
        ours.close()
        with spark:
            assert daemon.worker(ours, True) == 1
