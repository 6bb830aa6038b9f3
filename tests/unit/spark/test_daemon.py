"""What the daemon of Spark's Python workers adds to PySpark's."""

import gc
import socket
import sys
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from sparklog.spark import daemon


def pair() -> tuple[socket.socket, socket.socket]:
    """A worker's socket, and Spark's."""
    return socket.socketpair()


class Kept:
    """An object that a task leaves, in a cycle."""

    itself: "Kept"


class TestWorker:
    def test_runs_the_task_that_spark_sends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def run_task(sock: Any, authenticated: bool) -> tuple[bytes, bool]:
            return sock.recv(4), authenticated

        monkeypatch.setattr(daemon, "run_task", run_task)
        monkeypatch.setattr(daemon, "exempt_kept", lambda: None)
        ours, spark = pair()
        with ours, spark:
            spark.send(b"task")
            found: Any = daemon.worker(ours, True)
        assert found == (b"task", True)

    @pytest.mark.parametrize(
        ("kept", "done"),
        [
            (daemon.KEPT_MAX, ["task", "collect"]),
            (daemon.KEPT_MAX + 1, ["task", "collect", "freeze"]),
        ],
    )
    def test_exempts_what_a_task_has_left_if_it_is_much(
        self, monkeypatch: pytest.MonkeyPatch, kept: int, done: list[str]
    ) -> None:
        found: list[str] = []
        monkeypatch.setattr(daemon, "run_task", lambda *_: found.append("task"))
        monkeypatch.setattr(gc, "collect", lambda: found.append("collect"))
        monkeypatch.setattr(gc, "get_objects", lambda: [None] * kept)
        monkeypatch.setattr(gc, "freeze", lambda: found.append("freeze"))
        monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
        ours, spark = pair()
        with ours, spark:
            spark.send(b"task")
            daemon.worker(ours, True)
        monkeypatch.undo()
        assert found == done

    def test_frees_now_and_then_what_it_has_exempted(
        self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        request.addfinalizer(gc.unfreeze)
        monkeypatch.setattr(daemon, "KEPT_MAX", 0)
        monkeypatch.setattr(daemon, "EXEMPT_MAX", 10**9)
        monkeypatch.setattr(daemon, "_next_look", [10**9])
        kept = Kept()
        kept.itself = kept
        known = weakref.ref(kept)
        daemon.exempt_kept()
        del kept
        daemon.exempt_kept()
        assert known() is not None
        monkeypatch.setattr(daemon, "_next_look", [0])
        daemon.exempt_kept()

        assert known() is None
        assert daemon._next_look == [daemon.EXEMPT_MAX]

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

    def test_ends_when_spark_has_read_enough_of_a_task(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run_task(sock: socket.socket, _: bool) -> None:
            assert sock.recv(4) == b"task"
            spark.close()
            sock.send(b"rows")  # a BrokenPipeError

        monkeypatch.setattr(daemon, "run_task", run_task)
        ours, spark = pair()
        with ours:
            spark.send(b"task")
            assert daemon.worker(ours, True) == 1


class TestLoad:
    def test_takes_further_modules_if_they_are_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tmp_path.joinpath("a_further_module.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path))

        daemon.load("pyspark.unknown", ["no_such_module", "a_further_module"])

        del sys.modules["a_further_module"]  # it is there


class TestArchives:
    def test_are_still_imported_from(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        archive = str(tmp_path / "archive.zip")
        with ZipFile(archive, "w") as file:
            file.writestr("in_an_archive/__init__.py", "")
            file.writestr("in_an_archive/a.py", "")
        monkeypatch.syspath_prepend(archive)
        import_module("in_an_archive")
        assert archive in sys.path_importer_cache

        daemon.forget_archives()

        assert archive not in sys.path_importer_cache
        import_module("in_an_archive.a")
        for name in ("in_an_archive", "in_an_archive.a"):
            del sys.modules[name]
