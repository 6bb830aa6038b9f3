"""Connections: clients that do not authenticate, and those that take nothing."""

from pathlib import Path

from sparklog.wire.versions import ApiKey
from tests.wire.gateways import Client, RunningGateway, gateway, request
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
