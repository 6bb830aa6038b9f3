"""The server: uvicorn, with limits for slow and oversized headers, and an end without losses.

On SIGTERM or SIGINT: no new connections; waiting fetches are answered with what there is; every
group is committed and acknowledged; then the process ends.
"""

import asyncio
import signal
import sys
from types import FrameType
from typing import Any

import uvicorn
from pydantic import ValidationError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.app import create_app
from api.logs import set_up_logs
from api.security import SettingsError, check_listening
from api.service import Service
from api.settings import Settings


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol; closes connections that take too long for headers, or send too many.

    The time begins with the connection, and with the first byte of every further request; between
    requests uvicorn's own keep-alive timeout counts.
    """

    max_header_bytes = 16 * 1024
    header_timeout_s = 10.0
    _header_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect headers."""
        super().connection_made(transport)
        self._expect_headers()

    def on_message_begin(self) -> None:
        """Expect the headers of a further request."""
        self._expect_headers()
        super().on_message_begin()

    def data_received(self, data: bytes) -> None:
        """Count what comes while headers are expected."""
        was_expected = self._timer is not None
        super().data_received(data)
        if was_expected and self._timer is not None:
            self._header_bytes += len(data)
            if self._header_bytes > self.max_header_bytes:
                self.transport.close()

    def on_headers_complete(self) -> None:
        """Expect no more headers."""
        self._stop()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing."""
        self._stop()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        if self._timer is None:
            self._header_bytes = 0
            self._timer = self.loop.call_later(self.header_timeout_s, self._close)

    def _close(self) -> None:
        self.transport.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """uvicorn's server, which wakes waiting fetches when it is told to end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: waiting fetches are answered now, not when their time is up."""
        super().handle_exit(sig, frame)
        asyncio.get_running_loop().call_soon_threadsafe(self._service.poll.close)


def server_of(settings: Settings) -> Server:
    """Return the server. Raises SettingsError when it may not listen there."""
    check_listening(settings)
    app = create_app(settings)
    limits = {
        "max_header_bytes": settings.max_header_bytes,
        "header_timeout_s": settings.header_timeout_ms / 1000,
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
        timeout_graceful_shutdown=settings.shutdown_timeout_ms // 1000,
    )
    return Server(config, app.state.service)


def main() -> None:
    """Serve until a signal."""
    try:
        settings = Settings()  # type: ignore[call-arg] # they come from the environment
        set_up_logs(settings.log_level)
        server = server_of(settings)
        # uvicorn takes signals while it serves and raises them once more behind: obeyed already.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        server.run()
    except (SettingsError, ValidationError) as error:
        sys.exit(f"sparklog: {error}")
