"""What goes wrong inside a gateway: one connection, or one line of the log, and nothing else."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import SHUT_WR
from typing import Any, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.errors import CommitConflictError, LogDirError, StorageError, StorageFullError
from sparklog.storage.local import LocalFiles
from sparklog.testing import TemporaryLogDir
from sparklog.wire.handlers import HANDLERS, Call, Reply
from sparklog.wire.handlers.records.fetch_read import FetchRequest
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.serving.connection import Connection
from tests.client_batches import client_batch
from tests.failing import failing, failing_later
from tests.waiting import until
from tests.wire.fetching import NEWEST, Part, fetch_request, partitions_of, values
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.requests import body
from tests.wire.test_metadata import topics_asked
from tests.wire.test_produce import init_request, produce_request


def fails(_: Call) -> Reply:
    raise RuntimeError("a bug")


async def fails_later(_: Call) -> Reply:
    raise RuntimeError("a bug")


class TestAHandlerThatFails:
    @pytest.mark.parametrize("handler", [fails, fails_later])
    def test_costs_its_connection(
        self,
        client: Client,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        handler: Any,
    ) -> None:
        monkeypatch.setitem(HANDLERS, ApiKey.METADATA, handler)
        client.send(topics_asked(12))
        assert client.receive_frame() == b""
        assert "a bug" in caplog.text


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Future[Reply]]:
    """The produce requests that have begun, each to be answered by the test."""
    found: list[asyncio.Future[Reply]] = []

    def held(_: Call) -> asyncio.Future[Reply]:
        found.append(asyncio.get_running_loop().create_future())
        return found[-1]

    monkeypatch.setitem(HANDLERS, ApiKey.PRODUCE, held)
    return found


class TestPipelinedRequests:
    def test_are_answered_in_their_order(
        self, running: RunningGateway, client: Client, begun: list[asyncio.Future[Reply]]
    ) -> None:
        async def answer(number: int, body: bytes) -> None:
            begun[number].set_result([body])

        for _ in range(2):
            client.send(produce_request(9, "t", (0, client_batch("a"))))
        until(lambda: len(begun) == 2)
        running.run(answer(1, b"second"))
        running.run(answer(0, b"first"))
        assert client.receive_frame().endswith(b"first")
        assert client.receive_frame().endswith(b"second")


class TestAClientThatTakesNothing:
    def test_is_not_answered_until_it_does(self, running: RunningGateway, client: Client) -> None:
        client.ask(topics_asked(12))
        [connection] = running.server.gateway.connections

        async def paused() -> Sequence[str | None]:
            connection.pause_writing()
            return connection._overdue(5.0), connection._overdue(6.0), connection._overdue(500.0)

        async def resumed() -> None:
            connection.resume_writing()

        assert running.run(paused()) == (None, None, "send.timeout.ms")
        client.send(topics_asked(12))
        running.run(resumed())
        assert client.receive(ApiKey.METADATA, 12).topics == ()


class TestAClientThatHasSentAll:
    @pytest.mark.parametrize("count", [1, 2])
    def test_gets_its_answers_but_those_of_fetches(
        self, running: RunningGateway, client: Client, count: int
    ) -> None:
        [topic] = running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        for _ in range(count):
            client.send(fetch_request(NEWEST, topic, Part(), wait_ms=10**9))
            client.send(topics_asked(12, "t"))
        client.socket.shutdown(SHUT_WR)
        for _ in range(count):
            assert client.receive(ApiKey.METADATA, 12).topics[0].name == "t"
        assert client.receive_frame() == b""
        until(lambda: not running.server.gateway.connections)

    def test_is_gone_when_its_last_request_is_a_fetch(
        self, running: RunningGateway, client: Client
    ) -> None:
        [topic] = running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        client.send(topics_asked(12, "t"))
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=10**9))
        client.socket.shutdown(SHUT_WR)
        assert client.receive(ApiKey.METADATA, 12).topics[0].name == "t"
        assert client.receive_frame() == b""


class TestASignOfLife:
    def test_that_fails_is_told_to_the_log(
        self,
        running: RunningGateway,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(
            running.server.gateway.membership, "beat", failing(StorageError, "the disk is gone")
        )
        with pytest.raises(TimeoutError):
            running.run(asyncio.wait_for(running.server.gateway._beat(), 0.2))
        assert "the disk is gone" in caplog.text

    def test_one_started_again_is_not_removed(
        self,
        running: RunningGateway,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        membership = running.server.gateway.membership
        [broker] = running.server.gateway.catalog.image().brokers.values()

        monkeypatch.setattr(
            membership, "_remove", failing(CommitConflictError, "another incarnation")
        )
        caplog.set_level("INFO", "sparklog.gateway")
        membership._declare_dead(broker)
        assert "was started again" in caplog.text

    def test_a_broker_is_removed_once(self, running: RunningGateway) -> None:
        membership = running.server.gateway.membership
        [broker] = running.server.gateway.catalog.image().brokers.values()
        membership._remove(broker, "a test")
        membership._remove(broker, "a test")
        assert not running.server.gateway.catalog.image().brokers

    def test_a_broker_that_was_never_seen_is_not_dead(self, running: RunningGateway) -> None:
        assert not running.server.gateway.membership._is_dead(77, "nobody")


def test_a_log_dir_that_goes_is_told(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = running.server.gateway
    with monkeypatch.context() as patched:
        patched.setattr(found.topics, "image", lambda *_: None)
        with pytest.raises(LogDirError, match="gone"):
            found._newest()


def test_a_full_disk_gives_no_producer_id(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        running.server.gateway.producer_ids,
        "next",
        failing_later(StorageFullError, "no space left"),
    )
    answer = client.ask(init_request(4))
    assert answer.error_code == ErrorCode.coordinator_load_in_progress
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_a_fetch_that_cannot_be_read_at_once_is_read_on_a_thread(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TemporaryLogDir(running.server.gateway.settings.log_dir)
    log.topic("t").produce("a")
    asked = fetch_request(12, "t", Part())
    before = client.ask(asked).responses
    read = FetchRequest.read
    refused: list[bool] = []

    def slowly(asked: FetchRequest, image: Any, **how: bool) -> Any:
        if how.get("at_once"):
            refused.append(True)
            raise BlockingIOError
        return read(asked, image, **how)

    monkeypatch.setattr(FetchRequest, "read", slowly)
    assert client.ask(asked).responses == before
    assert refused == [True]


def test_what_another_instance_may_know_better_is_looked_up_anew(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    [topic] = running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    monkeypatch.setattr(LocalFiles, "is_local", False)
    [found] = client.ask(fetch_request(12, topic, Part(offset=7))).responses
    assert found.partitions[0].error_code == ErrorCode.offset_out_of_range


@pytest.mark.parametrize("failures", [2, 3])
def test_a_read_that_is_repeated_is_told_only_if_it_is_answered(
    running: RunningGateway,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failures: int,
) -> None:
    [topic] = running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    client.ask(produce_request(9, "t", (0, client_batch("a"))))
    take, left = FetchRequest._take_batches, list(range(failures))

    def taken(self: FetchRequest, place: Any, ranges: Any, limits: Any, size: int) -> None:
        if left:
            left.pop()
            raise StorageError("the disk is gone")
        take(self, place, ranges, limits, size)

    monkeypatch.setattr(LocalFiles, "is_local", False)
    monkeypatch.setattr(FetchRequest, "_take_batches", taken)
    [found] = partitions_of(client.ask(fetch_request(12, topic, Part())))
    is_answered = failures == 3
    assert (found.error_code != 0) is is_answered
    assert ("FETCH failed: the disk is gone" in caplog.text) is is_answered


class TestAStorageThatFails:
    @pytest.fixture(params=[StorageError])
    def error(self, request: pytest.FixtureRequest) -> Exception:
        found: Exception = request.param("the disk is gone")
        return found

    @pytest.fixture(autouse=True)
    def failing(
        self, running: RunningGateway, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        async def fails(*_: Any) -> None:
            raise error

        found = running.server.gateway
        found.admin.create_topics([NewTopic("t", 1)])
        monkeypatch.setattr(found, "image", fails)
        monkeypatch.setattr(found, "newest_image", fails)
        monkeypatch.setattr(found.topics, "image_at_hand", lambda **_: None)

    @pytest.mark.parametrize(
        ("version", "code"),
        [(5, ErrorCode.not_leader_or_follower), (6, ErrorCode.kafka_storage_error)],
    )
    def test_answers_a_fetch_with_its_error(
        self, client: Client, caplog: pytest.LogCaptureFixture, version: int, code: ErrorCode
    ) -> None:
        [found] = partitions_of(client.ask(fetch_request(version, "t", Part())))
        assert found.error_code == code
        assert "FETCH failed: the disk is gone" in caplog.text

    def test_answers_for_the_topics_of_a_request_that_clients_ask_again(
        self, running: RunningGateway, client: Client
    ) -> None:
        answer = client.ask(topics_asked(12, "t", "u"))
        told = [(one.name, one.error_code) for one in answer.topics]
        assert told == [(name, ErrorCode.leader_not_available) for name in ("t", "u")]
        assert [one.port for one in answer.brokers] == [running.port]

    def test_answers_for_transactional_ids_that_clients_ask_again(self, client: Client) -> None:
        asked = body(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=("id",))
        [found] = client.ask(asked).transaction_states
        assert found.error_code == ErrorCode.coordinator_not_available

    @pytest.mark.parametrize("error", [StorageError, LogDirError], indirect=True)
    def test_is_told_apart_from_a_client_at_fault(
        self, running: RunningGateway, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            with Client(running.port) as one:
                one.send(topics_asked(0))  # all topics
                assert one.receive_frame() == b""
        assert caplog.text.count("connection closed: storage error: the disk is gone") == 1
        assert 'reason="storage error"} 2.0' in running.server.gateway.metrics.text().decode()


class Disk(NamedTuple):
    """A disk whose reads wait: that one has begun, and that they may go on."""

    reading: threading.Event
    may_go_on: threading.Event


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A slow one; nothing is in memory."""
    found, read = Disk(threading.Event(), threading.Event()), FetchRequest.read

    def slowly(asked: FetchRequest, image: Any, **how: bool) -> Any:
        if how.get("at_once"):
            raise BlockingIOError
        found.reading.set()
        assert found.may_go_on.wait(60)
        return read(asked, image, **how)

    monkeypatch.setattr(FetchRequest, "read", slowly)
    yield found
    found.may_go_on.set()


class TestTheEnd:
    def test_waits_for_what_is_being_read(self, tmp_path: Path, disk: Disk) -> None:
        TemporaryLogDir(tmp_path / "log").topic("t").produce("a")
        with gateway(tmp_path / "log") as running, Client(running.port) as client:
            client.send(fetch_request(12, "t", Part()))
            disk.reading.wait(60)
            ending = running.begin(running.server.close())
            until(lambda: running.server.gateway.is_ending)
            disk.may_go_on.set()
            [found] = partitions_of(client.receive(ApiKey.FETCH, 12))
            assert (values(found), client.receive_frame()) == (["a"], b"")
            ending.result(60)

    def test_that_takes_too_long_cuts_clients_off(
        self, tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
    ) -> None:
        values = {"shutdown_timeout_ms": 1}
        with gateway(tmp_path / "log", **values) as running, Client(running.port) as client:
            client.send(fetch_request(12, "t", Part()))
            disk.reading.wait(60)
            running.run(running.server.close())
            assert client.receive_frame() == b""
        assert "shutdown_timeout_ms" in caplog.text

    def test_takes_no_further_request(
        self,
        running: RunningGateway,
        begun: list[asyncio.Future[Reply]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        taken: list[int] = []
        take = Connection.buffer_updated

        def noted(connection: Connection, nbytes: int) -> None:
            take(connection, nbytes)
            taken.append(nbytes)

        async def answer() -> None:
            begun[0].set_result([b"first"])

        monkeypatch.setattr(Connection, "buffer_updated", noted)
        with Client(running.port) as client:
            client.send(produce_request(9, "t", (0, client_batch("a"))))
            until(lambda: len(begun) == 1)
            ending = running.begin(running.server.close())
            until(lambda: running.server.gateway.is_ending)
            seen = len(taken)
            client.send(produce_request(9, "t", (0, client_batch("b"))))
            until(lambda: len(taken) > seen)
            running.run(answer())
            assert client.receive_frame().endswith(b"first")
            assert client.receive_frame() == b""
        ending.result(60)
        assert len(begun) == 1

    def test_takes_no_request_of_a_client_that_comes_late(self, running: RunningGateway) -> None:
        running.server.gateway.is_ending = True
        with Client(running.port) as client:
            assert client.receive_frame() == b""
