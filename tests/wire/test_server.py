"""The server: listeners, limits, signals, and several processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from sparklog.clock import SystemClock
from sparklog.errors import InvalidOptionError, LogDirError, SparklogError
from sparklog.wire.limits import Limits
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.serving import server
from sparklog.wire.serving.grants import Grants
from sparklog.wire.serving.listeners import bind, bound_to
from sparklog.wire.serving.processes import RESTART_S, Processes, serve_one, settings_of_instances
from sparklog.wire.serving.server import Server
from sparklog.wire.settings import Settings
from tests.failing import failing
from tests.wire.gateways import Client, RunningGateway, gateway, request
from tests.wire.test_metadata import topics_asked


def settings(**values: object) -> Settings:
    return Settings.model_validate({"log_dir": "log", **values})


def send_buffer_of_a_connection(running: RunningGateway) -> int:
    with Client(running.port) as client:
        client.ask(request(ApiKey.API_VERSIONS, 0))
        [connection] = running.server.gateway.connections
        own: socket.socket = connection._transport.get_extra_info("socket")
        return own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


class TestListeners:
    @pytest.mark.parametrize(
        ("values", "told"),
        [
            ({"listen": ("localhost",)}, "HOST:PORT"),
            ({"listen": ("127.0.0.1:70000",)}, "HOST:PORT"),
            ({"listen": ("http://127.0.0.1:1",)}, "SASL_SSL"),
            ({"listen": ("0.0.0.0:0",)}, "--tokens-file"),
            ({"listen": ("SSL://127.0.0.1:0",)}, "--ssl-certificate-file"),
            ({"listen": ("0.0.0.0:0",), "tokens_file": "t"}, "connect to 0.0.0.0; .*--advertise"),
            ({"listen": ("[::]:0",), "tokens_file": "t"}, "connect to ::; .*--advertise"),
            ({"listen": ("[::ffff:0.0.0.0]:0",), "tokens_file": "t"}, "connect to ::ffff:0.0.0.0"),
            ({"listen": ("0:0",), "tokens_file": "t"}, "connect to 0.0.0.0; .*--advertise"),
            ({"listen": ("a:0",)}, "a listens beyond"),
            ({"listen": ("127.0.0.1:0",), "advertise": ("no",)}, "--advertise 'no'"),
            ({"listen": ("127.0.0.1:0",), "advertise": ("0.0.0.0:1",)}, "connect to 0.0.0.0:1"),
            ({"listen": ("127.0.0.1:0",), "advertise": ("a:1", "b:2")}, "one for each"),
            ({"listen": ("127.0.0.1:0", "no")}, "HOST:PORT"),
        ],
    )
    def test_refuses_what_may_not_be(self, values: dict[str, object], told: str) -> None:
        with pytest.raises(InvalidOptionError, match=told):
            bind(settings(**values))

    def test_of_one_kind_are_numbered(self) -> None:
        found = bind(settings(listen=("127.0.0.1:0", "plaintext://[::1]:0")))
        for one in found:
            one.socket.close()
        assert [one.listener.name for one in found] == ["PLAINTEXT", "PLAINTEXT-2"]

    def test_connections_have_kafkas_send_buffer(self, running: RunningGateway) -> None:
        assert send_buffer_of_a_connection(running) == 2 * 102_400  # Linux doubles it

    def test_connections_may_have_the_systems_send_buffer(self) -> None:
        with socket.socket() as plain:
            systems = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        [bound] = bind(settings(listen=("127.0.0.1:0",), socket_send_buffer_bytes=-1))
        with bound.socket as found:
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == systems

    def test_several_gateways_share_a_bootstrap_address(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            shared = f"127.0.0.1:{free.getsockname()[1]}"
        with (
            gateway(tmp_path / "log", bootstrap=shared) as first,
            gateway(tmp_path / "log", bootstrap=shared) as second,
            Client(int(shared.split(":")[1])) as client,
        ):
            brokers = client.ask(topics_asked(12)).brokers
            assert {one.port for one in brokers} <= {first.port, second.port}


def test_no_kernel_is_loaded_before_it_listens() -> None:
    code = "import sys, sparklog.wire.serving.server as _; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "sparklog.wire.serving.server" in run.stdout.split()
    assert [name for name in run.stdout.split() if ".record.kernels." in name] == []


def test_a_directory_that_is_no_log_dir_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    with pytest.raises(LogDirError), ExitStack() as stack:
        stack.enter_context(gateway(tmp_path))


@pytest.mark.parametrize("option", ["listen", "metrics_listen", "bootstrap"])
def test_an_address_that_is_taken_is_named(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        here = f"127.0.0.1:{taken.getsockname()[1]}"
        values = {"listen": ("127.0.0.1:0",), option: (here,) if option == "listen" else here}
        with pytest.raises(OSError, match=f"cannot listen at {here}: Address already in use"):
            Server(settings(log_dir=str(tmp_path / "log"), **values), SystemClock())


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "nowhere"])
def test_a_server_that_cannot_start_closes_its_side_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listen: str
) -> None:
    sides: list[socket.socket] = []

    def bound(host: str, port: int) -> socket.socket:
        sides.append(bound_to(host, port))
        return sides[0]

    monkeypatch.setattr(server, "bound_to", bound)
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    values = {"listen": (listen,), "metrics_listen": "127.0.0.1:0"}
    with pytest.raises(SparklogError):
        Server(settings(log_dir=str(tmp_path), **values), SystemClock())
    assert [one.fileno() for one in sides] == [-1]


class TestLimits:
    def test_connections_of_an_address(self, tmp_path: Path) -> None:
        with (
            gateway(tmp_path / "log", max_connections_per_ip=1) as running,
            Client(running.port) as first,
            Client(running.port) as second,
        ):
            assert first.ask(request(ApiKey.API_VERSIONS, 0)).error_code == 0
            assert second.receive_frame() == b""

    def test_connections_in_all(self) -> None:
        limits = Limits(settings(max_connections=1))
        assert [limits.admit("a"), limits.admit("b")] == [True, False]
        limits.leave("a")
        assert limits.admit("b")

    def test_bytes_of_requests_wait_for_room(self) -> None:
        limits, called = Limits(settings(queued_max_request_bytes=10)), []
        limits.add(10)
        assert limits.is_full
        limits.wait(lambda: called.append(1))
        limits.add(-1)
        assert (called, limits.is_full) == ([1], False)

    @pytest.mark.parametrize(
        ("values", "sent"),
        [
            ({"connections_max_idle_ms": 1}, b""),
            ({"receive_timeout_ms": 1}, b"\0\0\0\x05a"),
        ],
    )
    def test_a_client_that_is_idle_or_slow_is_cut_off(
        self, tmp_path: Path, values: dict[str, object], sent: bytes
    ) -> None:
        with gateway(tmp_path / "log", **values) as running, Client(running.port) as client:
            client.socket.sendall(sent)
            assert client.receive_frame() == b""

    def test_large_requests_come_through_one_after_another(self, tmp_path: Path) -> None:
        with gateway(tmp_path / "log", queued_max_request_bytes=1) as running:
            clients = [Client(running.port) for _ in range(3)]
            for client in clients:
                client.send_frame(b"\0\x12\0\0\0\0\0\0\xff\xff" + bytes(100_000))
            for client in clients:
                assert client.receive(ApiKey.API_VERSIONS, 0).error_code == 0
                client.socket.close()


def test_sweeps_go_on_after_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors, goes_on = [None, TypeError("a bug")], Event()

    def renews(_: Grants) -> None:
        if errors and (error := errors.pop(0)):
            raise error
        if not errors:
            goes_on.set()

    monkeypatch.setattr(server, "SWEEP_S", 0.001)
    monkeypatch.setattr(Grants, "renew", renews)
    with gateway(tmp_path / "log"):
        assert goes_on.wait(30)
    assert "a bug" in caplog.text


def test_each_address_is_logged_when_it_accepts_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sparklog.gateway")
    given = {"listen": ("127.0.0.1:0", "[::1]:0"), "advertise": ("a.example:1", "[fe80::1]:2")}
    side = {"metrics_listen": "127.0.0.1:0", "node_id": 7}
    with gateway(tmp_path / "log", **given, **side) as running:
        first, second = (one.port for one in running.server.listeners)
        told = [record.getMessage() for record in caplog.records]
        assert told == [
            f"broker 7 listens at PLAINTEXT://127.0.0.1:{first}; clients get a.example:1",
            f"broker 7 listens at PLAINTEXT-2://[::1]:{second}; clients get [fe80::1]:2",
            f"/metrics and /ready are at http://127.0.0.1:{running.server.side_port}",
        ]


def test_a_name_is_advertised_as_a_name(tmp_path: Path) -> None:
    """Goal: a certificate of the name fits the address that clients get."""
    with gateway(tmp_path / "log", listen=("localhost:0",)) as running:
        [found] = running.server.listeners
    assert (found.host, found.advertised_host) == ("127.0.0.1", "localhost")
    assert found.advertised_port == found.port > 0


class Ended:
    """A process that has ended, or ends when it is told to."""

    def __init__(self, exitcode: int | None, told: int = 0) -> None:
        self.exitcode, self._told = exitcode, told
        self.sentinel, self._end = os.pipe()
        if exitcode is not None:
            os.close(self._end)

    def terminate(self) -> None:
        self.exitcode = self._told
        os.close(self._end)


class TestProcesses:
    def test_have_consecutive_numbers(self) -> None:
        given = {"listen": ("127.0.0.1:9092", "127.0.0.1:0"), "node_id": 5, "processes": 2}
        found = settings_of_instances(settings(**given, metrics_listen="127.0.0.1:9466"))
        assert [one.listen for one in found] == [
            ("127.0.0.1:9092", "127.0.0.1:0"),
            ("127.0.0.1:9093", "127.0.0.1:0"),
        ]
        assert [(one.node_id, one.metrics_listen) for one in found] == [
            (5, "127.0.0.1:9466"),
            (6, "127.0.0.1:9467"),
        ]

    def test_one_that_is_killed_is_started_again_one_that_fails_ends_all(self) -> None:
        made = [Ended(None), Ended(-9), Ended(3)]
        waiting = iter(made)
        rests: list[float] = []
        found = Processes(settings(processes=2), lambda _: next(waiting), rests.append)
        assert found.run() == 3
        assert [one.exitcode for one in made] == [0, -9, 3]
        assert rests == [RESTART_S]

    def test_one_that_was_killed_stays_down_after_a_signal(self) -> None:
        killed = Ended(-9)
        found = Processes(settings(processes=1), lambda _: killed, lambda _: found.end())
        assert found.run() == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_during_the_start_ends_those_that_have_started(self, number: int) -> None:
        made: list[Ended] = []

        def start(_: Settings) -> Ended:
            made.append(Ended(None, -number))
            found.end()
            return made[-1]

        found = Processes(settings(processes=2), start)
        assert found.run() == 0
        assert [one.exitcode for one in made] == [-number]

    def test_one_that_fails_says_why_in_one_line(self) -> None:
        with pytest.raises(SystemExit, match="^sparklog: error: it is no log dir$"):
            serve_one(failing(LogDirError, "it is no log dir"), settings())

    def test_they_show_no_traceback(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            here = f"127.0.0.1:{taken.getsockname()[1]}"
            options = ["--log-dir", str(tmp_path / "log"), "--listen", here, "--processes", "2"]
            command = [sys.executable, "-m", "sparklog", "gateway", *options]
            run = subprocess.run(command, capture_output=True, text=True, check=False)

        told = [line for line in run.stderr.splitlines() if line[0] != "{"]
        assert run.returncode == 1
        assert (
            f"sparklog: error: [Errno 98] cannot listen at {here}: Address already in use" in told
        )
        assert all(line.startswith("sparklog: error: ") for line in told)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_gateway_ends_well_on_sigterm(tmp_path: Path, processes: int) -> None:
    listen = [] if processes > 1 else ["--listen", "127.0.0.1:0"]
    if processes > 1:
        listen = ["--listen", "127.0.0.1:0", "--processes", "2"]
    command = [sys.executable, "-m", "sparklog", "--log-dir", str(tmp_path / "log")]
    command += ["gateway", *listen]
    listening: list[dict[str, str]] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        while len(listening) < processes:
            told = [json.loads(run.stderr.readline())]
            listening += [one for one in told if "listens at PLAINTEXT://" in one["message"]]
        run.send_signal(signal.SIGTERM)
        rest = run.stderr.read()
    assert run.returncode == 0, rest
    assert {(one["level"], one["logger"]) for one in listening} == {("info", "sparklog.gateway")}
    assert list((tmp_path / "log" / "__gateways").glob("*.json")) == []
