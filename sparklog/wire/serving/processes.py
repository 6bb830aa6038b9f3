"""Processes: several instances on one machine, as `--processes` asks for.

The ports, the node id and the side port of each instance are one higher than those of the previous
instance. A process that is killed is started again after a second; so a process that is killed
again at once does not keep a core busy. If a process ends with an error, all others are ended, too.
"""

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any, Final, Protocol

from sparklog.errors import SparklogError
from sparklog.wire.settings import Settings


class Process(Protocol):
    """One instance's process, as multiprocessing has it."""

    sentinel: int
    exitcode: int | None

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...


Start = Callable[[Settings], Process]

ENDED: Final = (0, -signal.SIGTERM, -signal.SIGHUP)
"""Exit codes of an end that was asked for; the signals end a process that still starts."""
RESTART_S: Final = 1.0
"""The time between the end of a killed process and the start of its successor."""


def settings_of_instances(settings: Settings) -> Sequence[Settings]:
    """Return the settings of each instance."""
    return [_numbered(settings, number) for number in range(settings.processes)]


def _numbered(settings: Settings, number: int) -> Settings:
    node_id = None if settings.node_id is None else settings.node_id + number
    side = settings.metrics_listen
    return settings.model_copy(
        update={
            "listen": tuple(_higher(one, number) for one in settings.listen),
            "advertise": tuple(_higher(one, number) for one in settings.advertise),
            "metrics_listen": None if side is None else _higher(side, number),
            "node_id": node_id,
            "processes": 1,
        }
    )


def _higher(address: str, number: int) -> str:
    """Return an address with a higher port; port 0 is any free one, and stays."""
    host, colon, port = address.rpartition(":")
    if not port.isdigit() or port == "0":
        return address
    return f"{host}{colon}{int(port) + number}"


class Processes:
    """The processes of all instances.

    `start` starts a process with these settings; `rest` waits for a number of seconds.
    """

    def __init__(
        self, settings: Settings, start: Start, rest: Callable[[float], None] = time.sleep
    ) -> None:
        self._start, self._rest = start, rest
        self._settings = settings_of_instances(settings)
        self._running: dict[int, Process] = {}
        self._is_ending = False

    def end(self, *_: Any) -> None:
        """End all processes. A signal handler may call it at any time."""
        self._is_ending = True
        for one in self._running.values():
            one.terminate()

    def run(self) -> int:
        """Start all processes, and wait until all have ended.

        Returns 0, or the exit code of the first process that failed.
        """
        for number in range(len(self._settings)):
            if not self._is_ending:
                self._begin(number)
        failed = 0
        while self._running:
            wait([one.sentinel for one in self._running.values()])
            for number, one in list(self._running.items()):
                if one.exitcode is None:
                    continue
                del self._running[number]
                if one.exitcode < 0 and not self._is_ending:
                    self._rest(RESTART_S)
                    if not self._is_ending:  # by a signal meanwhile
                        self._begin(number)
                elif one.exitcode not in ENDED:
                    failed = failed or abs(one.exitcode)
                    self.end()
        return failed

    def _begin(self, number: int) -> None:
        """Start an instance's process."""
        self._running[number] = started = self._start(self._settings[number])
        if self._is_ending:  # by a signal: `end` did not see this process yet
            started.terminate()


def serve_one(serve: Callable[[Settings], None], settings: Settings) -> None:
    """Serve an instance in this process. An error is one line, and exit code 1."""
    try:
        serve(settings)
    except (SparklogError, OSError) as error:
        sys.exit(f"sparklog: error: {error}")


def serve_all(settings: Settings, serve: Callable[[Settings], None]) -> int:
    """Serve each instance in its own process until a signal; return the exit code (`run`)."""
    spawn: Final = multiprocessing.get_context("spawn")

    def start(one: Settings) -> Process:
        process: Any = spawn.Process(target=serve_one, args=(serve, one))
        process.start()
        found: Process = process
        return found

    processes = Processes(settings, start)
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, processes.end)
    return processes.run()
