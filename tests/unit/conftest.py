"""What a unit test may not do: wait, reach a network, start a JVM."""

import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import NoReturn

import pytest

JVM_PROGRAMS = {"java", "spark-submit", "spark-class"}


@pytest.fixture(autouse=True)
def no_outside_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes sleeping, connecting and starting a JVM fail in every unit test."""
    start, sleep = subprocess.Popen.__init__, time.sleep
    # Threads of others, such as py4j's, may still be there, and sleep.
    others = set(threading.enumerate()) - {threading.current_thread()}

    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        pytest.fail("a unit test may not sleep, connect or start a JVM")

    def refuse_sleep(seconds: float) -> None:
        if threading.current_thread() in others:
            sleep(seconds)
        else:
            refuse()

    def start_unless_jvm(self: object, command: list[str], *rest: object, **more: object) -> None:
        if Path(command[0]).name in JVM_PROGRAMS:
            refuse()
        start(self, command, *rest, **more)  # type: ignore[call-overload] # handed on as it came

    monkeypatch.setattr(time, "sleep", refuse_sleep)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(subprocess.Popen, "__init__", start_unless_jvm)


@pytest.fixture(autouse=True)
def nothing_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `erase` wait for no shared segment that may still grow."""
    monkeypatch.setattr("sparklog.admin.erase.GROWS_MS", 0)
