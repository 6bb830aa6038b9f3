"""Connections: clients that do not authenticate, those that take nothing, and those that leave."""

from pathlib import Path
from weakref import ref

import pytest

from sparklog.wire.versions import ApiKey
from tests.wire.gateways import Client, RunningGateway, gateway, request
from tests.wire.processes import until
from tests.wire.test_sasl import secured_file


def test_a_client_that_does_not_authenticate_is_cut_off(tmp_path: Path) -> None:
    values = {"tokens_file": secured_file(tmp_path), "authentication_timeout_ms": 1}
    with gateway(tmp_path / "log", **values) as running, Client(running.port) as client:
        assert client.receive_frame() == b""


def test_one_that_is_read_no_further_is_not_slow(running: RunningGateway, client: Client) -> None:
    assert client.ask(request(ApiKey.API_VERSIONS, 0)).error_code == 0
    [connection] = running.server.gateway.connections

    async def why() -> str | None:
        connection._is_reading, connection._frame_began = False, 1.0
        return connection._overdue(1e9)

    assert running.run(why()) == "connections.max.idle.ms"


@pytest.mark.usefixtures("no_collector")
def test_one_that_was_closed_is_freed_without_the_collector(running: RunningGateway) -> None:
    with Client(running.port) as client:
        assert client.ask(request(ApiKey.API_VERSIONS, 0)).error_code == 0
        [gone] = map(ref, running.server.gateway.connections)
    until(lambda: gone() is None, most_s=30)

    assert not running.server.gateway.connections
