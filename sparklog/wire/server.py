"""The server: listeners, signals, and an end without losses.

On SIGTERM or SIGINT: no new connections and no new requests; waiting fetches are answered with what
there is; everything accepted is committed and acknowledged; then the process ends.
"""

import asyncio
import os
import signal
import socket
from functools import partial
from typing import Final

import uvloop

from sparklog.clock import Clock, SystemClock
from sparklog.errors import InvalidOptionError
from sparklog.wire.connection import Connection
from sparklog.wire.gateway import Gateway
from sparklog.wire.instances import Instance
from sparklog.wire.settings import Listener, Settings

BACKLOG: Final = 512


class Server:
    """A gateway and its listeners. For one event loop."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Bind the addresses, and open the log dir, or make it.

        Raises LogDirError for what is no log dir, InvalidOptionError, and OSError for an address
        that is taken.
        """
        self._sockets = [_bound(address) for address in settings.listen]
        self.listeners = [_listener(one) for one in self._sockets]
        first = self.listeners[0]
        host, port = first.advertised_host, first.advertised_port
        own = Instance(settings.node_id or 0, host, port, settings.rack)
        self.gateway = Gateway(settings, clock, own)
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        """Accept connections."""
        self.gateway.tidying.start()
        loop = asyncio.get_running_loop()
        for listener, bound in zip(self.listeners, self._sockets, strict=True):
            make = partial(Connection, self.gateway, listener)
            self._servers.append(await loop.create_server(make, sock=bound, backlog=BACKLOG))

    async def close(self) -> None:
        """Finish: everything accepted is committed and answered."""
        for server in self._servers:
            server.close()
        await self.gateway.close()


def _bound(text: str) -> socket.socket:
    """Return a socket at an address, not listening yet. Raises InvalidOptionError, OSError."""
    host, port = _address(text)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError:
        found.close()
        raise
    return found


def _listener(bound: socket.socket) -> Listener:
    host, port = bound.getsockname()[:2]
    return Listener(host, port, host, port)


def _address(text: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidOptionError."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise InvalidOptionError(f"--listen {text!r}: allowed is HOST:PORT", option="listen")
    return host.strip("[]"), int(port)


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, is_over.set)
    server = Server(settings, SystemClock())
    await server.start()
    await is_over.wait()
    await server.close()


def serve(settings: Settings) -> None:
    """Serve until a signal."""
    # obstore has a thread for each core otherwise: to wake them takes longer than what they do.
    os.environ.setdefault("TOKIO_WORKER_THREADS", "1")
    uvloop.run(_serve(settings))
