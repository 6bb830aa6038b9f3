"""The server: uvicorn, with limits for slow and oversized headers, and an end without losses.

On SIGTERM or SIGINT: no new connections; waiting fetches are answered with what there is; every
group is committed and acknowledged; then the process ends.
"""

import asyncio
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


def guarded_protocol(max_header_bytes: int, header_timeout_s: float) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with a limit on bytes and time of the headers of a request."""

    class GuardedProtocol(HttpToolsProtocol):
        """Closes connections that send headers for too long, or too many of them."""

        _header_bytes = 0
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._timer = self.loop.call_later(header_timeout_s, self._too_slow)

        def data_received(self, data: bytes) -> None:
            if self._timer is None and self.cycle is not None and self.cycle.response_complete:
                self._timer = self.loop.call_later(header_timeout_s, self._too_slow)
            if self._timer is not None:
                self._header_bytes += len(data)
            super().data_received(data)
            # What came with the end of the headers is body, and limited as such.
            if self._timer is not None and self._header_bytes > max_header_bytes:
                self.transport.close()

        def on_headers_complete(self) -> None:
            self._stop_timer()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._header_bytes = None, 0

        def _too_slow(self) -> None:
            self.transport.close()

    return GuardedProtocol


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
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=guarded_protocol(settings.max_header_bytes, settings.header_timeout_ms / 1000),
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
        server_of(settings).run()
    except (SettingsError, ValidationError) as error:
        sys.exit(f"sparklog: {error}")
