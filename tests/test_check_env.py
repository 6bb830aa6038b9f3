"""The first sentence a newcomer may meet: what is missing, and what to install."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK_ENV = Path(__file__).parent.parent / "scripts" / "check_env.sh"


def make_program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def make_java(folder: Path, version: str) -> Path:
    make_program(folder / "bin", "java", f"echo 'openjdk version \"{version}\" 2025' >&2")
    return folder


def check_env(**environment: str) -> tuple[int, str, str]:
    answer = subprocess.run(
        ["/bin/sh", str(CHECK_ENV)],
        env={"PATH": os.environ["PATH"], "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout.strip(), answer.stderr.strip()


class TestJava:
    @pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
    def test_is_taken_from_java_home(self, tmp_path: Path, version: str) -> None:
        code, python, sentence = check_env(JAVA_HOME=str(make_java(tmp_path, version)))

        assert (code, sentence) == (0, "")
        assert Path(python).resolve() == Path(sys.executable).resolve()

    def test_is_taken_from_the_path(self, tmp_path: Path) -> None:
        java = make_java(tmp_path, "17.0.1")

        assert check_env(PATH=f"{java}/bin:{os.environ['PATH']}")[0] == 0

    @pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "16"])
    def test_too_old_is_one_sentence(self, tmp_path: Path, version: str) -> None:
        code, _, sentence = check_env(JAVA_HOME=str(make_java(tmp_path, version)))

        assert code == 1
        assert sentence.startswith("sparklog needs Java 17 or newer, and the java in JAVA_HOME=")
        assert f"is {version}: please install a Java 17 runtime" in sentence
        assert "\n" not in sentence

    def test_missing_is_one_sentence(self, tmp_path: Path) -> None:
        code, _, sentence = check_env(JAVA_HOME=str(tmp_path))

        assert code == 1
        assert f"there is no java in JAVA_HOME={tmp_path}: please install" in sentence
        assert "\n" not in sentence


class TestPython:
    def test_too_old_is_one_sentence(self, tmp_path: Path) -> None:
        # Answers the version question, and exits 1 when asked whether it is new enough.
        old = make_program(tmp_path, "python3", 'case "$2" in *exit*) exit 1;; *) echo 3.9;; esac')
        code, _, sentence = check_env(PYTHON=str(old))

        assert code == 1
        assert sentence == (
            f"sparklog needs Python 3.11 or newer ({old} is 3.9): "
            "please install Python 3.11 with its venv module."
        )

    def test_missing_is_one_sentence(self) -> None:
        code, _, sentence = check_env(PYTHON="no-such-python")

        assert code == 1
        assert "(no-such-python does not run): please install Python 3.11" in sentence

    def test_without_venv_is_one_sentence(self, tmp_path: Path) -> None:
        bare = make_program(
            tmp_path, "python3", 'case "$2" in *venv*) exit 1;; *executable*) echo "$0";; esac'
        )
        code, _, sentence = check_env(PYTHON=str(bare))

        assert code == 1
        assert sentence.startswith(f"sparklog needs the venv module of {bare}, which is missing")
