"""The side port: metrics, and whether clients are served."""

import asyncio
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Event, current_thread
from unittest.mock import AsyncMock, Mock

import pytest

from sparklog.admin import NewTopic
from sparklog.admin.kafka_metrics import KafkaMetrics
from sparklog.errors import StorageError
from sparklog.metadata.follow import FollowedLog
from sparklog.wire import gateway as wire_gateway
from sparklog.wire.gateway import LONG_AT_ONCE
from sparklog.wire.serving import side_port
from sparklog.wire.serving.side_port import SidePort
from tests.failing import failing
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.test_metadata import topics_asked


class TestSidePort:
    @pytest.fixture
    def side(self, tmp_path: Path) -> Iterator[RunningGateway]:
        with gateway(tmp_path / "log", metrics_listen="127.0.0.1:0") as running:
            until(lambda: running.server.gateway.is_loaded)
            yield running

    def get(self, running: RunningGateway, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.server.side_port}{path}") as found:
            text: str = found.read().decode()
        return text

    def test_tells_metrics(self, side: RunningGateway) -> None:
        with Client(side.port) as client:
            client.ask(topics_asked(12))
            client.send_frame(b"x")
            client.receive_frame()
            text = self.get(side, "/metrics")
        assert 'sparklog_gateway_request_seconds_count{api="METADATA"} 1.0' in text
        assert 'sparklog_gateway_connections_closed_total{reason="invalid request"} 1.0' in text
        assert "sparklog_gateway_instances 1.0" in text

    def test_tells_whether_clients_are_served(self, side: RunningGateway) -> None:
        assert self.get(side, "/ready") == "ready\n"
        side.server._is_closed = True
        with pytest.raises(urllib.error.HTTPError, match="503"):
            self.get(side, "/ready")
        side.server._is_closed = False

    def test_tells_that_clients_are_not_served_before_the_kernels_are_loaded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        may_load = Event()
        monkeypatch.setattr(wire_gateway, "_load_kernels", may_load.wait)
        with gateway(tmp_path / "log", metrics_listen="127.0.0.1:0") as running:
            try:
                with pytest.raises(urllib.error.HTTPError, match="503") as found:
                    self.get(running, "/ready")
                assert found.value.read() == b"starting\n"
            finally:
                may_load.set()
            until(lambda: running.server.gateway.is_loaded)
            assert self.get(running, "/ready") == "ready\n"

    def test_tells_why_clients_are_not_served(
        self,
        side: RunningGateway,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(FollowedLog, "_follow", failing(StorageError, "no disk"))
        with pytest.raises(urllib.error.HTTPError, match="503") as found:
            self.get(side, "/ready")
        assert found.value.read() == b"the log dir cannot be read\n"
        assert "not ready: no disk" in caplog.text

    def test_tells_topics_and_groups(self, side: RunningGateway) -> None:
        admin = side.server.gateway.admin
        admin.create_topics([NewTopic("flights", 2)])
        admin.alter_consumer_group_offsets("readers", {("flights", 0): 0})
        text = self.get(side, "/metrics/kafka")
        assert 'kafka_topic_partition_leader{partition="1",topic="flights"} 0.0' in text
        assert 'kafka_consumergroup_lag_sum{consumergroup="readers",topic="flights"} 0.0' in text

    def test_tells_when_they_cannot_be_read(
        self, side: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(KafkaMetrics, "text", failing(StorageError, "no disk"))
        with pytest.raises(urllib.error.HTTPError, match="503"):
            self.get(side, "/metrics/kafka")

    def test_tells_them_one_after_another_beside_long_answers(
        self, side: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While the storage hangs, any number of scrapes wait for it."""
        threads, may_end, found = set[str](), Event(), side.server.gateway

        def hangs(*_: object, **__: object) -> bytes:
            threads.add(current_thread().name)
            may_end.wait(10)
            return b""

        monkeypatch.setattr(KafkaMetrics, "text", hangs)
        scrapes = [side.begin(found.kafka_metrics()) for _ in range(LONG_AT_ONCE)]
        try:
            until(lambda: bool(threads))
            assert side.run(asyncio.wait_for(found.at_length(lambda: "answer"), 5)) == "answer"
        finally:
            may_end.set()
        assert [one.result(10) for one in scrapes] == [b""] * LONG_AT_ONCE
        assert threads == {"scrape_0"}

    @pytest.mark.parametrize(("limit", "is_cut"), [("REQUEST_S", False), ("ANSWER_S", True)])
    def test_has_a_limit_for_a_request_and_another_for_the_answer(
        self, monkeypatch: pytest.MonkeyPatch, limit: str, is_cut: bool
    ) -> None:
        async def asked(transport: Mock) -> None:
            scrape = asyncio.get_running_loop().create_future()
            port = SidePort(bytes, lambda: scrape, AsyncMock())
            port.connection_made(transport)
            port.data_received(b"GET /metrics/kafka HTTP/1.1\r\n\r\n")
            for _ in range(5):
                await asyncio.sleep(0)
            port.connection_lost(None)

        monkeypatch.setattr(side_port, limit, 0.0)
        asyncio.run(asked(transport := Mock()))
        assert transport.abort.called == is_cut

    def test_closes_a_connection_whose_answer_takes_too_long(
        self,
        side: RunningGateway,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        may_end = Event()
        monkeypatch.setattr(side_port, "ANSWER_S", 0.1)
        monkeypatch.setattr(KafkaMetrics, "text", lambda *_, **__: may_end.wait(10) and b"late")
        with pytest.raises(ConnectionError):
            self.get(side, "/metrics/kafka")
        may_end.set()
        assert side.run(side.server.gateway.kafka_metrics()) == b"late"  # so the first one is done
        assert not caplog.records

    @pytest.mark.parametrize("path", ["/ready", "/metrics/kafka", "/nothing"])
    def test_answers_head_as_get_without_the_body(self, path: str) -> None:
        """Load balancers probe with HEAD."""

        async def asked(method: bytes) -> bytes:
            port = SidePort(bytes, AsyncMock(return_value=b"told"), AsyncMock(return_value=None))
            port.connection_made(transport := Mock())
            port.data_received(b"%s %s HTTP/1.1\r\n\r\n" % (method, path.encode()))
            await asyncio.sleep(0)
            port.connection_lost(None)
            return b"".join(call.args[0] for call in transport.write.mock_calls)

        head, end, body = asyncio.run(asked(b"GET")).partition(b"\r\n\r\n")
        assert body
        assert asyncio.run(asked(b"HEAD")) == head + end

    def test_leaves_a_query_alone(self, side: RunningGateway) -> None:
        """Prometheus sends the `params` of its configuration to every target."""
        assert self.get(side, "/ready?probe=1") == "ready\n"

    def test_knows_nothing_else(self, side: RunningGateway) -> None:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            self.get(side, "/")
        address = f"http://127.0.0.1:{side.server.side_port}/ready"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address, data=b"POST")

    def test_takes_a_request_in_parts(self, side: RunningGateway) -> None:
        with socket.create_connection(("127.0.0.1", side.server.side_port or 0)) as client:
            client.sendall(b"GET /ready HTTP/1.1\r\n")
            time.sleep(0.05)
            client.sendall(b"\r\n")
            assert client.recv(15) == b"HTTP/1.1 200 OK"

    def test_throws_away_a_second_request(self) -> None:
        """It would have a task of its own, on a connection that closes."""

        async def asked(ready: AsyncMock) -> None:
            port = SidePort(bytes, AsyncMock(), ready)
            port.connection_made(Mock())
            for _ in range(2):
                port.data_received(b"GET /ready HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0)
            port.connection_lost(None)

        ready = AsyncMock(return_value=None)
        asyncio.run(asked(ready))
        ready.assert_awaited_once_with()

    def test_drops_a_scrape_whose_client_has_gone(
        self, side: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Prometheus gives up and comes again: else scrapes would queue while the storage hangs."""
        calls, may_end, address = list[float](), Event(), ("127.0.0.1", side.server.side_port or 0)

        def hangs(*_: object, **__: object) -> bytes:
            calls.append(time.monotonic())
            may_end.wait(10)
            return b"told"

        monkeypatch.setattr(KafkaMetrics, "text", hangs)
        with socket.create_connection(address) as first:
            first.sendall(b"GET /metrics/kafka HTTP/1.1\r\n\r\n")
            until(lambda: bool(calls))
            with socket.create_connection(address) as second:
                second.sendall(b"GET /metrics/kafka HTTP/1.1\r\n\r\n")
            assert self.get(side, "/ready") == "ready\n"  # the loop has seen the end of the second
            may_end.set()
            assert first.makefile("rb").read().endswith(b"told")
        assert self.get(side, "/metrics/kafka") == "told"
        assert len(calls) == 2

    def test_closes_a_request_without_end(self, side: RunningGateway) -> None:
        with socket.create_connection(("127.0.0.1", side.server.side_port or 0)) as client:
            client.sendall(b"x" * 9_000)
            assert client.recv(1) == b""

    def test_is_none_by_default(self, running: RunningGateway) -> None:
        assert running.server.side_port is None
