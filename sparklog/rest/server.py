"""The server: uvicorn, with limits on headers and slow clients, and a shutdown without losses.

On SIGTERM, SIGINT or SIGHUP it takes no new connections, answers waiting fetches with the records
that it has, commits and acknowledges every group commit, and ends.
"""

import asyncio
import os
import signal
from socket import socket
from types import FrameType
from typing import Any, Final, NoReturn

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sparklog.author import name_program
from sparklog.garbage import collect_as_a_service
from sparklog.record.kernel_cache import compile_missing
from sparklog.rest.app import create_app
from sparklog.rest.joined import JoinedWrites
from sparklog.rest.service import Service
from sparklog.rest.settings import Settings
from sparklog.service.end import end_at_once_on_signals, end_within
from sparklog.service.logs import set_up_logs
from sparklog.service.open_files import allow_many_files
from sparklog.tokens import check_listening

PIPELINED_MAX: Final = 100
"""The most requests of one connection that may wait behind an unanswered one."""
INVALID: Final = "Invalid HTTP request received."


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits: it closes connections of clients that are slow.

    headers     limits of time and size. The time runs from the connection on, then from the first
                byte of each request; between requests uvicorn's own keep-alive timeout applies.
                The size is counted twice: as bytes that complete nothing, while they arrive, and
                as lines, when they are complete
    bodies      `edge` limits bodies that the service reads. If the answer was sent before the body
                was complete, the rest has the same time. Trailers and chunk extensions count as
                headers
    answers     a client that receives no byte of its answer within a time limit is cut off
    upgrades    an `Upgrade` is ignored, as RFC 9110 (7.8) allows. The parser takes bytes behind
                such headers for another protocol: the body would be lost, and be the next request
    """

    max_header_bytes = 64 * 1024
    header_timeout_s = 10.0
    body_timeout_s = 30.0
    send_timeout_s = 60.0
    _idle_bytes = 0
    _header_bytes = 0
    _has_progress = False
    _is_message_complete = True
    _timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request's headers."""
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self._expect(self.header_timeout_s)

    def data_received(self, data: bytes) -> None:
        """Take bytes; count those that complete neither the headers nor a part of a body."""
        if self.timeout_keep_alive_task is not None:
            self._expect(self.header_timeout_s)
        self._unset_keepalive_if_required()
        self._has_progress = False
        try:
            self._parse(memoryview(data))
        except httptools.HttpParserError:
            if not self.transport.is_closing():
                self.logger.warning(INVALID)
                self.send_400_response(INVALID)
        self._idle_bytes = 0 if self._has_progress else self._idle_bytes + len(data)
        if self._idle_bytes > self.max_header_bytes:
            self.transport.close()

    def _parse(self, data: memoryview) -> None:
        """Parse; where the parser stops for an `Upgrade`, begin that request anew without it."""
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as stop:
                data = data[stop.args[0] :]
            else:
                return
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError("the service is no proxy")
            head = self._head_without_upgrade()
            # The old parser takes no more bytes if the client closes the connection afterwards.
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        version = b"HTTP/" + self.parser.get_http_version().encode()
        line = b" ".join([self.parser.get_method(), self.url, version])
        headers = [b"%s: %s" % one for one in self.headers if one[0] != b"upgrade"]
        return b"\r\n".join([line, *headers, b"", b""])

    def on_message_begin(self) -> None:
        """Start the time limit of the headers, if it does not run yet."""
        self._is_message_complete = False
        self._header_bytes = 0
        self._expect(self.header_timeout_s)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, or a trailer."""
        self._header_bytes += len(name) + len(value) + len(b": \r\n")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the time limit of the headers, and check their size."""
        self._header_bytes += len(self.parser.get_method()) + len(self.url)
        self._header_bytes += len(b"  HTTP/1.1\r\n\r\n")
        if self._header_bytes > self.max_header_bytes or len(self.pipeline) >= PIPELINED_MAX:
            self._refuse()
        self._header_bytes = 0
        if not self.parser.should_upgrade():
            self._has_progress = True
            self._stop()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note that a part of the body has arrived."""
        self._has_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop all time limits of this request, and check the size of trailers."""
        if self._header_bytes > self.max_header_bytes:
            self._refuse()
        if not self.parser.should_upgrade():
            self._is_message_complete = True
            self._stop()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the time limit for the rest of a body that nobody reads any more."""
        super().on_response_complete()
        if not self._is_message_complete:
            self._expect(self.body_timeout_s)

    def eof_received(self) -> None:
        """Write the gathered bytes, and close."""
        self.transport.close()

    def pause_writing(self) -> None:
        """Start the time limit for the client to receive."""
        super().pause_writing()
        self._send_timer = self.loop.call_later(self.send_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time limit: the client has received."""
        super().resume_writing()
        self._stop_sending()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all time limits."""
        self._stop()
        self._stop_sending()
        super().connection_lost(exc)

    def _expect(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self.transport.close)

    def _refuse(self) -> NoReturn:
        """Close from within the parser, and stop it: what follows belongs to no request."""
        self.transport.close()
        raise ConnectionAbortedError

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_sending(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None


class Server(uvicorn.Server):
    """uvicorn's server; it ends in time, and a start that fails says why."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen. Raises OSError where that fails: uvicorn would exit with a code of its own, 3."""
        try:
            await super().startup(sockets)
        except SystemExit as stop:
            raise (stop.__context__ or stop) from None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: answer waiting fetches now, and end in time whatever the storage does."""
        super().handle_exit(sig, frame)
        service = self._service
        end_within(service.settings.shutdown_timeout_ms, service.housekeeper.kill)
        asyncio.get_running_loop().call_soon_threadsafe(service.begin_to_end)


def server_of(settings: Settings) -> Server:
    """Return the server. Raises InvalidOptionError and InvalidConfigError, as `serve`."""
    check_listening(settings.host, settings.tokens_file)
    app = create_app(settings)
    limits = {
        "max_header_bytes": settings.max_header_bytes,
        "header_timeout_s": settings.header_timeout_ms / 1000,
        "body_timeout_s": settings.body_timeout_ms / 1000,
        "send_timeout_s": settings.send_timeout_ms / 1000,
    }
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=type("Protocol", (GuardedProtocol,), limits),
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
    )
    # uvicorn declares an int, and gives it to asyncio.wait_for, which takes parts of a second.
    seconds: Any = settings.shutdown_timeout_ms / 1000
    config.timeout_graceful_shutdown = seconds
    return Server(config, app.state.service)


def serve(settings: Settings) -> None:
    """Serve until a signal.

    Raises InvalidOptionError for an address that needs tokens, InvalidConfigError for a file of
    tokens that cannot be read, OSError for an address that is in use.
    """
    # By default obstore has a thread for each core: to wake them takes longer than their work.
    os.environ.setdefault("TOKIO_WORKER_THREADS", "1")
    name_program("rest")
    end_at_once_on_signals()
    allow_many_files()
    server = server_of(settings)
    set_up_logs(settings.log_level)
    compile_missing()
    # uvicorn handles signals while it serves, and raises them again when it has ended: ignore
    # these.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_as_a_service()
    server.run()
