"""The server: listeners, signals, and an end without losses.

On SIGTERM, SIGINT or SIGHUP the server takes no new connections and no new requests, answers
waiting fetches with the records there are, commits and acknowledges everything it has accepted, and
ends.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import ExitStack
from functools import partial
from typing import Final

import uvloop

from sparklog.author import name_program
from sparklog.clock import Clock, SystemClock
from sparklog.errors import SparklogError
from sparklog.garbage import collect_as_a_service
from sparklog.record.kernel_cache import compile_missing
from sparklog.service.end import end_at_once_on_signals, end_within
from sparklog.service.logs import set_up_logs
from sparklog.service.memory import give_back, give_back_code, spare_memory
from sparklog.service.open_files import allow_many_files
from sparklog.service.ready import Readiness
from sparklog.wire.gateway import Gateway
from sparklog.wire.security.tls import tls_of
from sparklog.wire.serving.connection import Connection
from sparklog.wire.serving.grants import Grants
from sparklog.wire.serving.listeners import address, bind, bound_to, endpoints_of, joined
from sparklog.wire.serving.processes import serve_all
from sparklog.wire.serving.side_port import UNREADABLE, SidePort
from sparklog.wire.settings import Settings

BACKLOG: Final = 512
MS_PER_S: Final = 1000
SWEPT: Final = 2_000
"""A sweep looks at so many connections, so that thousands of idle ones cost little."""
SWEEP_S: Final = 1.0
"""The time between two sweeps: looks at connections, tokens, certificate and housekeeper."""
SWITCH_INTERVAL_S: Final = 0.0002
"""How long a thread keeps the GIL before another one may take it. A commit releases the GIL about
thirty times; by Python's default it would wait up to 5 ms each time to get it back."""
LET_GO_SWEEPS: Final = 60
"""After this many sweeps the gateway closes all files that it keeps open: some may have been
deleted."""
log: Final = logging.getLogger("sparklog.gateway")


class Server:
    """A gateway and its listeners. For one event loop."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Bind the addresses, and open or create the log dir.

        Raises LogDirError if the directory is no log dir, InvalidOptionError, and OSError for an
        address that is taken.
        """
        self._settings = settings
        self._tls = tls_of(settings)
        with ExitStack() as opened:
            self._side = _side_socket(settings)
            if self._side is not None:
                opened.enter_context(self._side)
            self._bound = bind(settings)
            for one in self._bound:
                opened.enter_context(one.socket)
            self.listeners = [one.listener for one in self._bound]
            self.gateway = Gateway(settings, clock, endpoints_of(self.listeners))
            opened.pop_all()
        self._readiness = Readiness(self.gateway.topics.image, _told)
        self._grants = Grants(self.gateway)
        self._servers: list[asyncio.Server] = []
        self._side_server: asyncio.Server | None = None
        self._is_closed = False
        self._sweeps = 0
        self._unswept: list[Connection] = []
        """The connections that this round of sweeps has not looked at yet."""

    @property
    def side_port(self) -> int | None:
        """The port of /metrics and /ready; None without `metrics_listen`."""
        return None if self._side is None else int(self._side.getsockname()[1])

    async def start(self) -> None:
        """Accept connections."""
        self.gateway.transaction_ends.start()
        loop = asyncio.get_running_loop()
        for listener, bound in self._bound:
            make = partial(Connection, self.gateway, listener)
            tls = self._tls.context if self._tls and listener.is_tls else None
            shake_s = self._settings.authentication_timeout_ms / MS_PER_S if tls else None
            self._servers.append(
                await loop.create_server(
                    make, sock=bound, backlog=BACKLOG, ssl=tls, ssl_handshake_timeout=shake_s
                )
            )
        self._sweep()
        self.gateway.start()
        if self._side is not None:
            gateway = self.gateway
            side = partial(SidePort, gateway.metrics.text, gateway.kafka_metrics, self._problem)
            self._side_server = await loop.create_server(side, sock=self._side)
        self._tell_addresses()

    async def _problem(self) -> str | None:
        """Return why clients are not served; None if they are."""
        if self._is_closed:
            return "ending"
        return await self._readiness.problem() if self.gateway.is_loaded else "starting"

    def _tell_addresses(self) -> None:
        """Log the address of each listener, with the port that was chosen for port 0."""
        node_id = self.gateway.instances.own.node_id
        for one in self.listeners:
            log.info(
                "broker %d listens at %s://%s; clients get %s",
                node_id,
                one.name,
                joined(one.host, one.port),
                joined(one.advertised_host, one.advertised_port),
            )
        if self._side is not None:
            log.info("/metrics and /ready are at http://%s", joined(*self._side.getsockname()[:2]))

    def _sweep(self) -> None:
        """Set the timer of the next sweep, even if this one fails; do what is due each second."""
        self._next_sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        self.gateway.cut_off_after_standstill()
        self._grants.renew()
        if self._tls is not None:
            self._tls.follow()
        self._close_overdue()
        self._sweeps += 1
        if self._sweeps % LET_GO_SWEEPS == 0:
            self.gateway.let_go()
            self._giving_back = asyncio.ensure_future(self.gateway.lookup(give_back))
        self.gateway.keep_house()

    def _close_overdue(self) -> None:
        """Look at the next connections; after the last one, at the first one again."""
        now = asyncio.get_running_loop().time()
        if not self._unswept:
            self._unswept = list(self.gateway.connections)
        some = self._unswept[-SWEPT:]
        del self._unswept[-SWEPT:]  # before: if one fails, the next sweep looks at others
        for connection in some:
            connection.close_overdue(now)

    async def close(self) -> None:
        """Finish all accepted requests: commit and answer them.

        Connections whose requests take longer than shutdown_timeout_ms are closed without answers.
        A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._next_sweep.cancel()
        loop = asyncio.get_running_loop()
        ending = loop.run_in_executor(None, self.gateway.housekeeper.close)
        for server in self._servers:
            server.close()
        try:
            async with asyncio.timeout(self._settings.shutdown_timeout_ms / MS_PER_S):
                await self.gateway.close()
        except TimeoutError:
            self.gateway.cut_off("requests took longer than shutdown_timeout_ms")
        await ending
        self._readiness.close()
        if self._side_server is not None:
            self._side_server.close()


def _told(error: SparklogError) -> str:
    """Return what a probe may know of an error; log the error, which may name files."""
    log.warning("not ready: %s", error)
    return UNREADABLE


def _side_socket(settings: Settings) -> socket.socket | None:
    if settings.metrics_listen is None:
        return None
    return bound_to(*address(settings.metrics_listen, "metrics-listen"))


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    server: Server | None = None

    def end() -> None:
        if server is None:
            end_within(0)
        else:
            gateway = server.gateway
            timeout_ms = settings.shutdown_timeout_ms if gateway.is_loaded else 0
            end_within(timeout_ms, gateway.housekeeper.kill)
        is_over.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    # On a thread: it reads the log dir, and a signal must end a process whose storage is mute.
    server = await loop.run_in_executor(None, Server, settings, SystemClock())
    if is_over.is_set():  # no client knows this instance yet, only the other instances do
        await server.gateway.leave()
        return
    await server.start()
    over = asyncio.ensure_future(is_over.wait())
    loaded = asyncio.ensure_future(server.gateway.loaded())
    await asyncio.wait((over, loaded), return_when=asyncio.FIRST_COMPLETED)
    if loaded.done():
        loaded.result()
        collect_as_a_service()
        give_back()
        give_back_code()
        await over
    await server.close()


def serve(settings: Settings) -> None:
    """Serve until a signal ends it; with several `processes`, each instance has its own process.

    Raises as `Server`. With several processes it ends with SystemExit, with the exit code of the
    first process that failed, or 0.
    """
    # By default obstore starts a thread for each core; waking them takes longer than their work.
    os.environ.setdefault("TOKIO_WORKER_THREADS", "1")
    name_program("gateway")
    end_at_once_on_signals()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    spare_memory()
    allow_many_files()
    set_up_logs(settings.log_level)
    compile_missing()
    if settings.processes > 1:
        sys.exit(serve_all(settings, serve))
    uvloop.run(_serve(settings))
