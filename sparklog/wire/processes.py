"""Processes: several instances on one machine, as `--processes` asks for.

Each instance has numbers (ports, node id, side port) that are one higher than those of the previous
instance. A process that is killed is started again; a process that ends with an error ends all.
"""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any, Final, Protocol

from sparklog.wire.settings import Settings


class Process(Protocol):
    """One instance's process, as multiprocessing has it."""

    sentinel: int
    exitcode: int | None

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def join(self) -> None:
        """Wait for its end."""
        ...


Start = Callable[[Settings], Process]


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
    """The processes of all instances. `start` starts a process with settings."""

    def __init__(self, settings: Settings, start: Start) -> None:
        self._start = start
        self._running = {number: start(one) for number, one in _enumerated(settings)}
        self._settings = dict(_enumerated(settings))
        self._is_ending = False

    def end(self, *_: Any) -> None:
        """End all."""
        self._is_ending = True
        for one in self._running.values():
            one.terminate()

    def watch(self) -> int:
        """Return when all have ended: 0, or the exit code of the one that failed first."""
        failed = 0
        while self._running:
            wait([one.sentinel for one in self._running.values()])
            for number, one in list(self._running.items()):
                if one.exitcode is None:
                    continue
                del self._running[number]
                if one.exitcode < 0 and not self._is_ending:
                    self._running[number] = self._start(self._settings[number])
                elif one.exitcode != 0:
                    failed = failed or abs(one.exitcode)
                    self.end()
        return failed


def _enumerated(settings: Settings) -> Sequence[tuple[int, Settings]]:
    return list(enumerate(settings_of_instances(settings)))


def serve_all(settings: Settings, serve: Callable[[Settings], None]) -> int:
    """Serve in processes of their own until a signal; return the exit code."""
    spawn: Final = multiprocessing.get_context("spawn")

    def start(one: Settings) -> Process:
        process: Any = spawn.Process(target=serve, args=(one,))
        process.start()
        found: Process = process
        return found

    processes = Processes(settings, start)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, processes.end)
    return processes.watch()
