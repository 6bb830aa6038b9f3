"""Who commits: the process, its program, and the client that it acts for."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from sparklog import author
from sparklog.author import PART_MAX, acting_for, name_program, principal, who, workers_named


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known of the process yet, neither before the test nor after it."""
    for known in (author._user_and_host, author._script):
        known.cache_clear()
    monkeypatch.setattr(author, "_named", None)
    monkeypatch.delenv(author.PROGRAM_VARIABLE, raising=False)
    yield
    for known in (author._user_and_host, author._script):
        known.cache_clear()


@pytest.mark.usefixtures("anew")
class TestProcess:
    def test_has_user_host_and_id(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(author, "getuser", lambda: "ann")
        monkeypatch.setattr("socket.gethostname", lambda: "node-1.example.org")

        assert who().startswith(f"ann@node-1:{os.getpid()} ")

    def test_without_a_name_is_a_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown() -> NoReturn:
            raise KeyError("uid not found")

        monkeypatch.setattr(author, "getuser", unknown)

        assert who().startswith(f"{os.getuid()}@")

    def test_that_is_forked_has_its_own_id(self) -> None:
        who()
        code = "import os; from sparklog.author import who; who(); os.fork() or print(who())"
        run = [sys.executable, "-c", code]
        told = subprocess.run(run, capture_output=True, text=True, check=True).stdout

        assert told.split(":")[1] not in ("", str(os.getpid()))
        assert told.endswith(" python\n")


@pytest.mark.usefixtures("anew")
class TestProgram:
    @pytest.mark.parametrize(
        ("first", "told"),
        [
            ("/opt/etl.py", "etl.py"),
            ("-c", "python"),
            ("", "python"),
            ("/venv/lib/pyspark/daemon.py", "Spark"),
            ("a\nb\udcff" + 60 * "x", "a?b?" + 60 * "x"),
        ],
    )
    def test_is_the_script(self, first: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", [first])

        assert who().partition(" ")[2] == told[:PART_MAX]

    def test_may_be_named_by_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(author.PROGRAM_VARIABLE, "nightly")

        assert who().endswith(" nightly")

    def test_that_names_itself_has_that_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(author.PROGRAM_VARIABLE, "nightly")
        name_program("gateway")

        assert who().endswith(" gateway")

    def test_names_the_processes_that_it_starts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with workers_named("Spark sales"):
            inside = os.environ[author.PROGRAM_VARIABLE]
            with workers_named("Spark other"):
                nested = os.environ[author.PROGRAM_VARIABLE]

        assert (inside, nested) == ("Spark sales", "Spark sales")
        assert author.PROGRAM_VARIABLE not in os.environ


def test_a_name_fits_every_environment() -> None:
    with workers_named("Spark Fl\u00fcge\0"):
        assert os.environ[author.PROGRAM_VARIABLE] == "Spark Fl?ge?"


def test_a_client_is_known_in_its_block_alone() -> None:
    with acting_for("alice"):
        inside = principal()

    assert (inside, principal()) == ("alice", None)
