"""A gateway that holds as many bytes as it may: it reads on when there is room."""

from pathlib import Path

import pytest

from sparklog.admin import NewTopic
from sparklog.group_commit.appends import AppendCommit
from sparklog.testing import TemporaryLogDir
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import client_batch
from tests.waiting import turns_until, until
from tests.wire.fetching import NEWEST, Part, fetch_request
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.test_metadata import topics_asked
from tests.wire.test_produce import answers, produce_request


class TestAFullGateway:
    @pytest.mark.parametrize("limit", ["max_pending_bytes", "queued_max_request_bytes"])
    def test_takes_one_request_after_another(self, tmp_path: Path, limit: str) -> None:
        with gateway(tmp_path / "log", **{limit: 1}) as running, Client(running.port) as client:
            running.server.gateway.admin.create_topics([NewTopic("t", 1)])
            for number in range(5):
                client.send(produce_request(9, "t", (0, client_batch(str(number)))))
            found = [answers(client.receive(ApiKey.PRODUCE, 9)) for _ in range(5)]
        assert found == [[(0, 0, number)] for number in range(5)]
        expected = [str(number).encode() for number in range(5)]
        assert TemporaryLogDir(tmp_path / "log")["t"].values() == expected

    def test_does_not_wait_for_the_end_of_a_waiting_fetch(self, tmp_path: Path) -> None:
        with (
            gateway(tmp_path / "log", queued_max_request_bytes=1) as running,
            Client(running.port) as consumer,
            Client(running.port) as other,
        ):
            [topic] = running.server.gateway.admin.create_topics([NewTopic("t", 1)])
            consumer.send(fetch_request(NEWEST, topic, Part(), wait_ms=10**9))
            until(lambda: running.server.gateway.watch.waiting == 1)
            for _ in range(2):
                assert other.ask(topics_asked(12, "t")).topics[0].name == "t"
            assert running.server.gateway.limits.request_bytes == 0

    @pytest.mark.parametrize("has_gone", [False, True])
    def test_counts_no_bytes_of_a_lost_connection(self, tmp_path: Path, has_gone: bool) -> None:
        """Goal: a large frame that waits for room is given up with its connection."""
        with (
            gateway(tmp_path / "log", queued_max_request_bytes=1000) as running,
            Client(running.port) as client,
        ):
            client.ask(topics_asked(12))
            [connection] = running.server.gateway.connections
            limits = running.server.gateway.limits

            async def fills() -> None:
                limits.add(1000)

            async def cuts_off() -> None:
                connection.cut_off("timeout", "send.timeout.ms")
                if has_gone:
                    await turns_until(lambda: not running.server.gateway.connections)
                limits.add(-1000)

            running.run(fills())
            client.socket.sendall((400_000).to_bytes(4, "big") + bytes(1000))
            until(lambda: not connection._is_reading)
            running.run(cuts_off())
            until(lambda: not running.server.gateway.connections)
            assert limits.request_bytes == 0

    def test_reads_nothing_and_goes_on_when_there_is_room(
        self, running: RunningGateway, client: Client
    ) -> None:
        running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        client.ask(topics_asked(12))
        [connection] = running.server.gateway.connections
        appends = running.server.gateway.appends
        running.run(held(appends, 10**9))
        client.send(produce_request(9, "t", (0, client_batch("a"))))
        until(lambda: len(connection._waiting) == 1)

        async def goes_on() -> tuple[int, bool]:
            connection._go_on()  # as when an earlier request is answered
            return len(connection._waiting), connection._is_reading

        assert running.run(goes_on()) == (1, False)
        client.send(produce_request(9, "t", (0, client_batch("b"))))
        running.run(held(appends, -(10**9)))
        found = [answers(client.receive(ApiKey.PRODUCE, 9)) for _ in range(2)]
        assert found == [[(0, 0, 0)], [(0, 0, 1)]]


async def held(appends: AppendCommit, count: int) -> None:
    """Let so many more bytes wait for their commit."""
    appends._bytes += count
    appends._has_room.set()
