"""The side port: /metrics and /metrics/kafka for Prometheus, /ready for operators.

It is a minimal HTTP server: it reads only the first line of a request, and closes the connection
after the answer. HEAD is answered as GET, without the body (RFC 9110, 9.3.2): load balancers probe
with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from sparklog.errors import SparklogError
from sparklog.service.metrics import CONTENT_TYPE

HEAD_BYTES_MAX: Final = 8 * 1024
REQUEST_S: Final = 10.0
"""How long a client may take to send a request."""
ANSWER_S: Final = 120.0
"""How long an answer may take, until the client has it. The metrics of many groups take long where
the log dir is in an object store, and Prometheus has a time limit of its own."""
METHODS: Final = (b"GET", b"HEAD")
OK: Final = "200 OK"
NOT_FOUND: Final = "404 Not Found", b"allowed: GET or HEAD of /metrics, /metrics/kafka, /ready\n"
UNREADABLE: Final = "the log dir cannot be read"
log: Final = logging.getLogger("sparklog.gateway")


class SidePort(asyncio.Protocol):
    """One connection.

    `metrics` and `kafka_metrics` return the texts, `problem` why the gateway serves no clients,
    None if it does.
    """

    def __init__(
        self,
        metrics: Callable[[], bytes],
        kafka_metrics: Callable[[], Awaitable[bytes]],
        problem: Callable[[], Awaitable[str | None]],
    ) -> None:
        self._metrics = metrics
        self._kafka_metrics = kafka_metrics
        self._problem = problem
        self._head = b""
        self._transport: Any = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, for a short time."""
        self._transport = transport
        self._limit(REQUEST_S)

    def _limit(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """Answer when the headers are complete; bytes behind them are thrown away.

        They are read all the same: else the end of the connection would not be noticed.
        """
        if self._task is not None:
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._timer.cancel()
            self._limit(ANSWER_S)
            self._task = asyncio.ensure_future(self._answered(self._head.split(b"\r\n", 1)[0]))
        elif len(self._head) > HEAD_BYTES_MAX:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Stop waiting, also for an answer: a scrape that waits behind another one is not read."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def _answered(self, line: bytes) -> None:
        method, _, rest = line.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        status, body = await self._answer(path) if method in METHODS else NOT_FOUND
        self._transport.write(_head(status, len(body)) + (b"" if method == b"HEAD" else body))
        self._transport.close()

    async def _answer(self, path: bytes) -> tuple[str, bytes]:
        """Return the status and the body of GET."""
        match path:
            case b"/metrics":
                return OK, self._metrics()
            case b"/metrics/kafka":
                return await self._kafka()
            case b"/ready":
                problem = await self._problem()
                return (OK, b"ready\n") if problem is None else _unavailable(problem)
        return NOT_FOUND

    async def _kafka(self) -> tuple[str, bytes]:
        try:
            return OK, await self._kafka_metrics()
        except SparklogError as error:
            log.warning("no metrics of topics and groups: %s", error)
            return _unavailable(UNREADABLE)


def _unavailable(problem: str) -> tuple[str, bytes]:
    return "503 Service Unavailable", f"{problem}\n".encode()


def _head(status: str, size: int) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {size}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode()
