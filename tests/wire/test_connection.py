"""Connections: clients that do not authenticate, those that take nothing, and those that leave."""

from pathlib import Path
from weakref import ref

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.serving.connection import BYTES_MAX, Connection
from tests.waiting import until
from tests.wire.fetching import Part, fetch_request
from tests.wire.gateways import Client, RunningGateway, certificate_in, gateway, request
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


def test_one_that_is_idle_is_closed_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"connections_max_idle_ms": 1}
    with gateway(tmp_path / "log", **values) as running, Client(running.port) as client:
        assert client.receive_frame() == b""
    assert "connection closed" not in caplog.text


def test_sweeps_look_at_connections_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[Connection] = []
    monkeypatch.setattr("sparklog.wire.serving.server.SWEPT", 1)
    monkeypatch.setattr("sparklog.wire.serving.server.SWEEP_S", 0.01)
    monkeypatch.setattr(Connection, "close_overdue", lambda one, _: swept.append(one))
    with gateway(tmp_path / "log") as running, Client(running.port), Client(running.port):
        connections = running.server.gateway.connections
        until(lambda: len(connections) == 2 and {*connections} <= {*swept})


@pytest.mark.usefixtures("no_collector")
def test_one_that_was_closed_is_freed_without_the_collector(running: RunningGateway) -> None:
    running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
    with Client(running.port) as client:
        client.ask(fetch_request(4, "flights", Part(), wait_ms=1))
        [gone] = map(ref, running.server.gateway.connections)
    until(lambda: gone() is None, most_s=30)

    assert not running.server.gateway.connections


def test_a_fetch_ends_with_its_connection(running: RunningGateway, client: Client) -> None:
    running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
    client.send(fetch_request(4, "flights", Part(), wait_ms=10**9))
    waiting = running.server.gateway.watch._waiting
    until(lambda: bool(waiting))
    client.socket.sendall(b"\xff\xff\xff\xff")  # a frame of -1 bytes

    assert client.receive_frame() == b""
    until(lambda: not waiting)


def test_a_client_that_does_not_shake_hands_is_cut_off(tmp_path: Path) -> None:
    values = {"listen": ("SSL://127.0.0.1:0",), "authentication_timeout_ms": 1}
    with (
        gateway(tmp_path / "log", **values, **certificate_in(tmp_path)) as running,
        Client(running.port) as client,
    ):
        assert client.receive_frame() == b""


def test_few_bytes_wait_behind_a_fetch(running: RunningGateway, client: Client) -> None:
    running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
    client.send(fetch_request(4, "flights", Part(), wait_ms=1_000))
    [connection] = running.server.gateway.connections
    most = 0
    for _ in range(20):
        client.send_frame(b"\0\x12\0\0\0\0\0\0\xff\xff" + bytes(BYTES_MAX))
        most = max(most, connection._held_bytes)
    client.receive(ApiKey.FETCH, 4)

    for _ in range(20):
        assert client.receive(ApiKey.API_VERSIONS, 0).error_code == 0
    assert most < 4 * BYTES_MAX


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("librdkafka", "1 2"), ("-a", "1")])
def test_a_client_has_a_sound_name(client: Client, name: str, version: str) -> None:
    fields = {"client_software_name": name, "client_software_version": version}
    answer = client.ask(request(ApiKey.API_VERSIONS, 3, **fields))
    assert (answer.error_code, answer.api_keys) == (ErrorCode.invalid_request, ())
