"""A session whose workers cannot run sparklog is refused before they are asked to."""

import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparklog.errors import UsageError
from sparklog.spark.datasource import SparklogDataSource
from sparklog.spark.session import require_workers, session, socket_settings


def session_of(python: str | Path, master: str = "local[2]") -> Any:
    """The calls that a session gets."""
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=str(python)))


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """An interpreter that finds no package."""
    path = tmp_path / "python3"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def same_python(tmp_path: Path) -> Path:
    """This interpreter under another name."""
    path = tmp_path / "python4"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


class Builder:
    """Of a session that nobody starts: it keeps what it is given."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def appName(self, _name: str) -> "Builder":  # noqa: N802 - Spark's
        return self

    def config(self, key: str, value: str) -> "Builder":
        self.given[key] = value
        return self

    def getOrCreate(self) -> Any:  # noqa: N802 - Spark's
        return session_of(self.given["spark.pyspark.python"])


def test_an_empty_variable_counts_as_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_MASTER", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    builder = Builder()
    module = sys.modules[session.__module__]
    monkeypatch.setattr(module, "SparkSession", SimpleNamespace(builder=builder))
    session()

    assert builder.given["spark.master"] == "local[*]"
    assert builder.given["spark.pyspark.python"] == sys.executable


class TestSockets:
    def test_lie_in_a_directory_of_this_user_alone(self) -> None:
        directory = socket_settings()["spark.python.unix.domain.socket.dir"]

        assert Path(directory).stat().st_mode & 0o777 == 0o700
        assert socket_settings()["spark.python.unix.domain.socket.dir"] == directory

    def test_are_not_used_where_their_paths_would_be_too_long(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", f"/tmp/{'x' * 40}")

        assert socket_settings() == {}

    def test_go_with_the_process_that_made_them(self) -> None:
        code = (
            "import os; from sparklog.spark.session import socket_settings; "
            "print(socket_settings()['spark.python.unix.domain.socket.dir'], flush=True); "
            "import sys; child = os.fork(); child and os.waitpid(child, 0); "
            "print(os.listdir(socket_settings()['spark.python.unix.domain.socket.dir']))"
        )
        told = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)

        directory, *listed = told.stdout.decode().splitlines()
        assert listed == ["[]", "[]"]
        assert not Path(directory).exists()


class TestWorkers:
    def test_may_run_this_interpreter_or_one_like_it(self, same_python: Path) -> None:
        require_workers(session_of(sys.executable))
        require_workers(session_of(same_python))

    def test_without_pyarrow_are_refused(self, other_python: Path) -> None:
        with pytest.raises(UsageError, match=f"no pyarrow: .* PYSPARK_PYTHON to {sys.executable}"):
            require_workers(session_of(other_python))

    def test_that_do_not_exist_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no pyarrow"):
            require_workers(session_of(tmp_path / "nothing"))

    def test_of_other_machines_are_not_looked_at(self, other_python: Path) -> None:
        require_workers(session_of(other_python, master="spark://a:7077"))

    def test_find_out_themselves_in_a_session_that_nobody_looked_at(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(UsageError, match=f"run '{sys.executable}', which has no pyarrow"):
            SparklogDataSource({"path": "/data/log", "subscribe": "t"})
