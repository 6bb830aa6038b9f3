"""The script that stands for the Python of Spark's data sources."""

import os
import subprocess
from pathlib import Path

import pytest

from sparklog.spark.source_python import VARIABLE, sources_python


@pytest.fixture(autouse=True)
def no_choice_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter that prints its arguments, with a name that a shell would split."""
    path = tmp_path / "a python"
    path.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    path.chmod(0o755)
    return str(path)


def run(python: str, directory: Path, *arguments: str) -> str:
    """What the interpreter gets that Spark runs with these arguments."""
    with sources_python(python, str(directory)):
        script = os.environ[VARIABLE]
    return subprocess.run([script, *arguments], check=True, stdout=subprocess.PIPE).stdout.decode()


class TestScript:
    def test_runs_our_daemon_in_place_of_pysparks(self, python: str, tmp_path: Path) -> None:
        found = run(python, tmp_path, "-m", "pyspark.daemon", "pyspark.sql.worker.a")

        assert found == "-m|sparklog.spark.daemon|pyspark.sql.worker.a|"

    def test_loads_what_tasks_of_a_source_need(self, python: str, tmp_path: Path) -> None:
        found = run(python, tmp_path, "-m", "sparklog.spark.daemon", "pyspark.worker")

        assert found == "-m|sparklog.spark.daemon|pyspark.worker|pandas|"

    def test_runs_all_else_as_it_is(self, python: str, tmp_path: Path) -> None:
        assert run(python, tmp_path, "-c", "print(1); a 'b'") == "-c|print(1); a 'b'|"
        assert run(python, tmp_path, "-m", "pyspark.worker", "1") == "-m|pyspark.worker|1|"


class TestVariable:
    def test_is_set_while_a_jvm_starts(self, python: str, tmp_path: Path) -> None:
        with sources_python(python, str(tmp_path)):
            script = Path(os.environ[VARIABLE])
        assert VARIABLE not in os.environ
        assert script.stat().st_mode & 0o777 == 0o700

        with sources_python(python, str(tmp_path)):
            assert os.environ[VARIABLE] == str(script)

    def test_is_gone_when_the_jvm_has_failed(self, python: str, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError), sources_python(python, str(tmp_path)):
            raise RuntimeError("no JVM")

        assert VARIABLE not in os.environ

    def test_may_be_taken_by_two_threads(self, python: str, tmp_path: Path) -> None:
        with sources_python(python, str(tmp_path)):
            del os.environ[VARIABLE]  # as the other one did

        assert VARIABLE not in os.environ

    def test_of_the_user_stays(
        self, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VARIABLE, "/usr/bin/python3")

        with sources_python(python, str(tmp_path)):
            assert os.environ[VARIABLE] == "/usr/bin/python3"
        assert os.environ[VARIABLE] == "/usr/bin/python3"

    def test_is_not_set_where_scripts_may_not_be_run(
        self, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda path, mode: False)

        with sources_python(python, str(tmp_path)):
            assert VARIABLE not in os.environ
