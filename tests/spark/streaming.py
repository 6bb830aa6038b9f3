"""What tests of killed streams share: the topics, a run that is killed, and what must hold then."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.logs import new_topic, values
from tests.spark.stream_driver import PARTITIONS

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 180


def topics(folder: Path) -> str:
    """A log dir with the topics `a` and `b`."""
    log_dir = new_topic(folder / "log", "a", PARTITIONS)
    return new_topic(log_dir, "b", PARTITIONS)


class Streams:
    """The driver of tests.spark.stream_driver, started again and again."""

    def __init__(self, folder: Path, master: str = "local[2]") -> None:
        self.log_dir, self.checkpoints = topics(folder), folder / "checkpoints"
        self.checkpoints.mkdir()
        self.master = master

    def start(self, what: str) -> "subprocess.Popen[str]":
        """Start a driver in a process group of its own."""
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.spark.stream_driver", self.log_dir),
                *(str(self.checkpoints), self.master, what),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def killed_after(self, seconds: float, meanwhile: Callable[[], None] | None = None) -> None:
        """Run both queries until this long after both have made progress; then kill -9."""
        driver = self.start("run")
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "running\n"
            time.sleep(seconds)
            if meanwhile is not None:
                meanwhile()
            assert driver.poll() is None
        finally:
            _kill(driver)

    def killed_at(self, point: str) -> None:
        """Run both queries until they kill themselves at a point."""
        driver = self.start(point)
        try:
            assert driver.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
        finally:
            _kill(driver)

    def finish(self) -> None:
        """Copy what is in `a` to its end."""
        driver = self.start("finish")
        try:
            assert driver.wait(TIMEOUT_SECONDS) == 0
        finally:
            _kill(driver)

    def check(self) -> int:
        """See that every input is there once, in order per partition; return how many there are."""
        first, second = values(self.log_dir, "a"), values(self.log_dir, "b")
        numbers = sorted(int(value) for found in first.values() for value in found)

        assert numbers == list(range(len(numbers)))
        assert second == first
        return len(numbers)


def _kill(driver: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()
