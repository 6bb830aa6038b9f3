"""The guard around unit tests."""

import socket
import subprocess
import sys
import threading
import time

import pytest


class Stranger(threading.Thread):
    """A thread of somebody else, which sleeps when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sleep = threading.Event()
        self.has_slept = False

    def run(self) -> None:
        self.may_sleep.wait()
        time.sleep(0)
        self.has_slept = True


@pytest.fixture(scope="module")
def stranger() -> Stranger:
    """One that was there before the test."""
    found = Stranger()
    found.start()
    return found


class TestNoOutsideWorld:
    def test_a_thread_that_was_there_before_may_sleep(self, stranger: Stranger) -> None:
        stranger.may_sleep.set()
        stranger.join()
        assert stranger.has_slept

    def test_sleeping_fails(self) -> None:
        with pytest.raises(pytest.fail.Exception, match="may not sleep"):
            time.sleep(0)

    def test_connecting_fails(self) -> None:
        with socket.socket() as one, pytest.raises(pytest.fail.Exception, match="connect"):
            one.connect(("127.0.0.1", 1))

    def test_starting_a_jvm_fails(self) -> None:
        with pytest.raises(pytest.fail.Exception, match="start a JVM"):
            subprocess.run(["java", "-version"], check=False)

    def test_starting_python_is_allowed(self) -> None:
        assert subprocess.run([sys.executable, "-c", "pass"], check=False).returncode == 0
