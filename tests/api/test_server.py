"""uvicorn's protocol as it is guarded: what a client that takes no answer costs."""

import asyncio
from typing import Any

from uvicorn.server import ServerState

from api.server import GuardedProtocol, server_of
from tests.api.conftest import settings_for


class Transport(asyncio.Transport):
    """A connection whose client does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = asyncio.Event()

    def abort(self) -> None:
        self.aborted.set()


def connected(log_dir: str, transport: Transport) -> GuardedProtocol:
    config = server_of(settings_for(log_dir, send_timeout_ms=1)).config
    config.load()
    made: Any = config.http_protocol_class
    protocol: GuardedProtocol = made(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(transport)
    return protocol


class TestAnswers:
    def test_that_nobody_takes_end_the_connection(self, log_dir: str) -> None:
        async def main() -> None:
            transport = Transport()
            protocol = connected(log_dir, transport)
            protocol.pause_writing()
            async with asyncio.timeout(60):
                await transport.aborted.wait()
            protocol.connection_lost(ConnectionAbortedError())

            assert protocol._send_timer is None

        asyncio.run(main())

    def test_that_are_taken_go_on(self, log_dir: str) -> None:
        async def main() -> None:
            transport = Transport()
            protocol = connected(log_dir, transport)
            protocol.pause_writing()
            protocol.resume_writing()
            timers = protocol._send_timer
            protocol.connection_lost(ConnectionAbortedError())

            assert timers is None
            assert not transport.aborted.is_set()

        asyncio.run(main())
