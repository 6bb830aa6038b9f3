"""uvicorn's protocol as it is guarded: what a client that takes no answer costs."""

import asyncio
import signal
import socket
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient
from uvicorn.server import ServerState

from sparklog.rest import server as rest_server
from sparklog.rest.server import GuardedProtocol, server_of
from tests.rest.conftest import settings_for


class Transport(asyncio.Transport):
    """A connection whose client does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = asyncio.Event()
        self.sent = b""
        self.is_closed = False

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, list)
        self.sent += b"".join(list_of_data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.aborted.set()


def connected(log_dir: str, transport: Transport) -> GuardedProtocol:
    config = server_of(settings_for(log_dir, send_timeout_ms=1)).config
    config.load()
    made: Any = config.http_protocol_class
    protocol: GuardedProtocol = made(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(transport)
    return protocol


def test_a_shutdown_may_take_parts_of_a_second(log_dir: str) -> None:
    config = server_of(settings_for(log_dir, shutdown_timeout_ms=900)).config
    assert config.timeout_graceful_shutdown == 0.9


def test_a_signal_ends_the_housekeeper_and_limits_the_time_until_the_end(
    log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[object, ...]] = []
    monkeypatch.setattr(rest_server, "end_within", lambda *given: limits.append(given))
    server = server_of(settings_for(log_dir, shutdown_timeout_ms=900))
    service, close = server._service, Mock()
    monkeypatch.setattr(service.housekeeper, "close", close)

    async def told() -> None:
        server.handle_exit(signal.SIGTERM, None)
        await service.keep_house()  # it starts none any more
        close.assert_called_once_with()
        await service.close()

    asyncio.run(told())
    close.assert_called_once_with()
    assert limits == [(900, service.housekeeper.kill)]


def test_an_address_in_use_is_an_error_of_the_system(log_dir: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = server_of(settings_for(log_dir, port=taken.getsockname()[1]))
        with pytest.raises(OSError, match="address already in use"):
            asyncio.run(server.serve())


@pytest.mark.parametrize(("proxy", "scheme"), [("127.0.0.1", "https"), ("192.0.2.1", "http")])
def test_links_have_the_scheme_that_a_proxy_on_this_machine_tells(
    log_dir: str, proxy: str, scheme: str
) -> None:
    config = server_of(settings_for(log_dir)).config
    config.load()
    app: Any = config.loaded_app
    with TestClient(app, base_url="http://localhost", client=(proxy, 1)) as client:
        answer = client.get("/v3/clusters", headers={"X-Forwarded-Proto": "https"})

    assert answer.json()["metadata"]["self"] == f"{scheme}://localhost/v3/clusters"


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

    def test_leave_before_the_connection_of_who_sends_no_more(self, log_dir: str) -> None:
        async def main() -> None:
            transport = Transport()
            protocol = connected(log_dir, transport)
            protocol.transport.write(b"answer")
            protocol.eof_received()
            transport.close()
            protocol.connection_lost(None)

            assert transport.sent == b"answer"

        asyncio.run(main())
