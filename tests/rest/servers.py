"""Instances of the service as processes of their own: started, asked for their port, killed."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import httpx2

ROOT = Path(__file__).parents[2]
START_S = 60
_ADDRESS = re.compile(r"running on (http://127\.0\.0\.1:(\d+))")


class Instance:
    """`sparklog rest` on a port that the system chose; as a context manager it ends in order."""

    def __init__(self, log_dir: str | Path, folder: Path, **settings: object) -> None:
        self.log = folder / f"instance-{os.urandom(4).hex()}.log"
        values = {"log_dir": log_dir, "port": 0, "linger_ms": 0, **settings}
        given = {f"SPARKLOG_{name.upper()}": str(value) for name, value in values.items()}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sparklog", "rest"],
                cwd=ROOT,
                env={**os.environ, **given},
                stdout=out,
                stderr=out,
            )
        self.url = self._address()

    def _address(self) -> str:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            found = _ADDRESS.search(self.log.read_text())
            if found:
                return found[1]
            time.sleep(0.02)
        raise AssertionError(f"the service did not start: {self.log.read_text()}")

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    def client(self, **options: object) -> httpx2.Client:
        """Return a client of this instance."""
        return httpx2.Client(base_url=self.url, timeout=60, **options)  # type: ignore[arg-type] # handed on

    def lines(self) -> list[dict[str, object]]:
        """Return what it has logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def kill(self) -> None:
        """End it as a power switch does (kill -9)."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end (SIGTERM), wait, and return its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=START_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()
