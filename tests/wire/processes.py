"""A gateway in a process of its own, as users start it; to be killed."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

IN_TERMINAL = ("env", "--default-signal=HUP")
"""Tests that run under nohup ignore SIGHUP, and so would their processes."""


class GatewayProcess:
    """A gateway at one address, started any number of times; `environ` are variables of its own."""

    def __init__(
        self, log_dir: Path | str, *options: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._command = [*IN_TERMINAL, sys.executable, "-m", "sparklog", "gateway"]
        self._command += ["--log-dir", str(log_dir), "--listen", self.address, *options]
        self._environ = os.environ | (environ or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; return when it accepts connections."""
        self._process = subprocess.Popen(
            self._command, stderr=subprocess.DEVNULL, env=self._environ
        )
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError(f"the gateway ended with {self._process.returncode}")

    @property
    def pid(self) -> int:
        """The id of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)

    def signal(self, number: int) -> None:
        """Send it a signal: SIGSTOP, SIGCONT."""
        os.kill(self.pid, number)

    def stop(self) -> int:
        """End it by SIGTERM; return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)


@contextmanager
def gateway_process(
    log_dir: Path | str, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[GatewayProcess]:
    """A running gateway, stopped at the end."""
    process = GatewayProcess(log_dir, *options, environ=environ)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def children(pid: int | str = "self") -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += map(int, task.read_text().split())
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
