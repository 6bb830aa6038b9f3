"""The guard around unit tests."""

import socket
import subprocess
import sys
import time

import pytest


class TestNoOutsideWorld:
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
