"""The edge of the service: limits and checks around every request, whichever route answers it.

request id     taken from X-Request-Id, or made; sent back and logged
clients        without tokens: only those of this machine, and only by an allowed Host header
limits         size and time of a request's body, time of an answer's body
errors         errors of the library and refusals become a status and a body
log, counters  one line in the log for each request; Prometheus counters
the rest       an unexpected exception becomes a 500 without a traceback
"""

import asyncio
import logging
import re
import secrets
from itertools import count
from time import perf_counter
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparklog.errors import SparklogError
from sparklog.rest.errors import (
    KAFKA_ERROR,
    REQUEST_ID,
    THROTTLED,
    ApiError,
    refusal_of,
)
from sparklog.rest.metrics import Metrics
from sparklog.rest.settings import Settings
from sparklog.tokens import is_loopback

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_UNROUTED: Final = "(none)"
_PROCESS: Final = secrets.token_hex(6).encode()
_NUMBERS: Final = count(1)

access_log = logging.getLogger("sparklog.access")
log = logging.getLogger("sparklog.rest")


class Edge:
    """The outermost ASGI middleware."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on other events."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self._settings, self._metrics, scope, (receive, send))
        REQUEST_ID.set(exchange.request_id)
        started = perf_counter()
        self._metrics.in_progress += 1
        try:
            exchange.check()
            await self._app(scope, exchange.receive, exchange.send)
        except ApiError as refusal:
            await exchange.refuse(refusal)
        except SparklogError as error:
            await exchange.refuse(refusal_of(error))
        except (ConnectionError, ClientDisconnect):
            exchange.status = exchange.status or 499
        except Exception:
            log.exception("unexpected", extra={"fields": {"request_id": exchange.request_id}})
            await exchange.refuse(ApiError(KAFKA_ERROR, "the server failed"))
        finally:
            self._metrics.in_progress -= 1
            self._metrics.bodies_bytes -= exchange.bytes_in
            self._note(scope, exchange, perf_counter() - started)

    def _note(self, scope: Scope, exchange: "_Exchange", seconds: float) -> None:
        route = getattr(scope.get("route"), "path", _UNROUTED)
        method = scope["method"] if route != _UNROUTED else _UNROUTED
        sizes = exchange.bytes_in, exchange.bytes_out
        self._metrics.count(method, route, exchange.status, seconds, sizes)
        if self._settings.access_log and access_log.isEnabledFor(logging.INFO):
            fields = {
                "request_id": exchange.request_id,
                "method": scope["method"],
                "path": scope["path"],
                "status": exchange.status,
                "ms": round(seconds * 1000, 3),
                "bytes_in": exchange.bytes_in,
                "bytes_out": exchange.bytes_out,
            }
            access_log.info("request", extra={"fields": fields})


class _Exchange:
    """One request and its answer, counted and limited."""

    def __init__(
        self, settings: Settings, metrics: Metrics, scope: Scope, channel: tuple[Receive, Send]
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._scope = scope
        self._receive, self._send = channel
        self._has_started = False
        self._has_body = False
        self._body_deadline: float | None = None
        self.status = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self._headers = headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        self._id = given if _REQUEST_ID.fullmatch(given) else b"%s-%x" % (_PROCESS, next(_NUMBERS))

    @property
    def request_id(self) -> str:
        """The id of the request, in logs and in the answer."""
        return self._id.decode()

    def check(self) -> None:
        """Raise ApiError for a request that must not reach a route."""
        length = self._headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._settings.max_body_bytes:
            raise self._too_large()
        if self._settings.tokens_file is not None:
            return
        server = self._scope.get("server") or ("localhost", None)
        if server[1] is not None and not is_loopback(server[0]):
            raise ApiError(403, "without tokens only this machine is answered")
        host = self._headers.get(b"host", b"").decode("latin-1").lower()
        if _without_port(host) not in self._settings.allowed_hosts:
            raise ApiError(403, "without tokens the Host must be one of SPARKLOG_ALLOWED_HOSTS")

    def _too_large(self) -> ApiError:
        return ApiError(413, f"a body has at most {self._settings.max_body_bytes} bytes")

    async def receive(self) -> Message:
        """Receive a part of the body. Raises ApiError if it is too large or takes too long.

        When the body is complete, or the answer has begun, this waits without a limit until the
        client disconnects.
        """
        if self._has_body or self._has_started:
            return await self._receive()
        loop = asyncio.get_running_loop()
        if self._body_deadline is None:
            self._body_deadline = loop.time() + self._settings.body_timeout_ms / 1000
        try:
            async with asyncio.timeout_at(self._body_deadline):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(408, "the body took too long", {"Connection": "close"}) from None
        self._has_body = not message.get("more_body")
        size = len(message.get("body", b""))
        self.bytes_in += size
        self._metrics.bodies_bytes += size
        if self.bytes_in > self._settings.max_body_bytes:
            raise self._too_large()
        if self._metrics.bodies_bytes > self._settings.max_bodies_bytes:
            raise ApiError(THROTTLED, "too many bytes of bodies in progress", {"Retry-After": "1"})
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer.

        Raises ConnectionError if the client does not receive in time.
        """
        if message["type"] == "http.response.start":
            self._has_started = True
            self.status = message["status"]
            message["headers"].append((b"x-request-id", self._id))
            await self._send(message)
            return
        self.bytes_out += len(message.get("body", b""))
        if not message.get("more_body"):
            await self._send(message)
            return
        try:
            async with asyncio.timeout(self._settings.send_timeout_ms / 1000):
                await self._send(message)
        except TimeoutError:
            raise ConnectionError("the client does not receive") from None

    async def refuse(self, refusal: ApiError) -> None:
        """Answer with an error if nothing was sent yet; otherwise abort the connection."""
        if self._has_started:
            raise ConnectionAbortedError(refusal.message)
        body = orjson.dumps({"error_code": refusal.error_code, "message": refusal.message})
        headers: list[Any] = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *((name.lower().encode(), value.encode()) for name, value in refusal.headers.items()),
        ]
        await self.send(
            {"type": "http.response.start", "status": refusal.status, "headers": headers}
        )
        await self.send({"type": "http.response.body", "body": body})


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
