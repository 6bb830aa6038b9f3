"""Produce: what clients send is in the log when it is acknowledged."""

from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import (
    LateWriterError,
    LogDirError,
    SparklogError,
    StorageError,
    StorageFullError,
)
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.state.edit import PartitionState, TopicEdit
from sparklog.model import TopicDescription
from sparklog.storage.local import LocalFiles
from sparklog.testing import TemporaryLogDir
from sparklog.wire.handlers.records import produce
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import client_batch
from tests.failing import failing
from tests.waiting import turns_until
from tests.wire.gateways import Client, RunningGateway, gateway, grant_only
from tests.wire.requests import SOON, body, part

SERVED = range(3, 14)
UNKNOWN = ErrorCode.unknown_topic_or_partition


def produce_request(
    version: int, topic: str | UUID, *parts: tuple[int, bytes], acks: int = -1, **fields: Any
) -> Any:
    """A Produce request of one topic; `parts` are partitions and their batches."""
    data = tuple(
        part(ApiKey.PRODUCE, version, "PartitionProduceData", index=partition, records=batch)
        for partition, batch in parts
    )
    named = {"topic_id": topic, "name": topic, "partition_data": data}
    topics = (part(ApiKey.PRODUCE, version, "TopicProduceData", **named),)
    fields |= {"acks": acks, "timeout": SOON, "topic_data": topics}
    return body(ApiKey.PRODUCE, version, **fields)


@pytest.fixture
def topic(running: RunningGateway) -> TopicDescription:
    [found] = running.server.gateway.admin.create_topics([NewTopic("flights", 2)])
    return found


def named(topic: TopicDescription, version: int) -> str | UUID:
    return uuid_of(topic.topic_id) if version >= 13 else topic.name


def answers(response: Any) -> list[tuple[int, int, int]]:
    """Partition, error code and base offset of each part of an answer."""
    return [
        (one.index, int(one.error_code), one.base_offset)
        for topic in response.responses
        for one in topic.partition_responses
    ]


def values(log_dir: Path, topic: str, partition: int) -> list[Any]:
    return TemporaryLogDir(log_dir)[topic].values(partition)


@pytest.mark.parametrize("version", SERVED)
def test_a_batch_is_in_the_log_when_it_is_acknowledged(
    client: Client, topic: TopicDescription, tmp_path: Path, version: int
) -> None:
    asked = produce_request(version, named(topic, version), (1, client_batch("a", "b")))
    assert answers(client.ask(asked)) == [(1, 0, 0)]
    assert values(tmp_path / "log", "flights", 1) == [b"a", b"b"]


def test_pipelined_requests_land_in_their_order(
    client: Client, topic: TopicDescription, tmp_path: Path
) -> None:
    for number in range(20):
        batch = client_batch(str(number))
        client.send(produce_request(9, topic.name, (0, batch)))
    found = [answers(client.receive(ApiKey.PRODUCE, 9)) for _ in range(20)]
    assert found == [[(0, 0, number)] for number in range(20)]
    assert values(tmp_path / "log", "flights", 0) == [str(one).encode() for one in range(20)]


def commits_fail(kind: type[SparklogError], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFiles, "put_new", failing(kind, "no space left"))


@pytest.fixture(params=[StorageFullError, LateWriterError, LogDirError])
def refused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[SparklogError]:
    """An error that no client is at fault for: each commit fails with it."""
    kind: type[SparklogError] = request.param
    commits_fail(kind, monkeypatch)
    return kind


def test_the_log_has_the_reason_of_a_failure_once_for_all_clients(
    running: RunningGateway,
    topic: TopicDescription,
    refused: type[SparklogError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = produce_request(9, topic.name, (0, client_batch("a")))
    for _ in range(2):
        with Client(running.port) as client:
            assert answers(client.ask(asked)) == [(0, refused.code, -1)]

    told = [one for one in caplog.messages if one.endswith("PRODUCE failed: no space left")]
    assert len(told) == 1


def test_the_log_has_the_reason_of_a_failure_without_acknowledgement_once(
    running: RunningGateway,
    topic: TopicDescription,
    refused: type[SparklogError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        fail_without_acknowledgement(running, topic)

    assert caplog.text.count("a produce with acks=0 failed: no space left") == 1


def fail_without_acknowledgement(running: RunningGateway, topic: TopicDescription) -> None:
    with Client(running.port) as client:
        client.send(produce_request(9, topic.name, (0, client_batch("a")), acks=0))
        assert client.receive_frame() == b""


def test_two_reasons_without_acknowledgement_have_a_line_each(
    running: RunningGateway,
    topic: TopicDescription,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for kind in (StorageFullError, LateWriterError):
        commits_fail(kind, monkeypatch)
        fail_without_acknowledgement(running, topic)

    assert caplog.text.count("a produce with acks=0 failed: no space left") == 2


def test_behind_a_request_that_fails_nothing_lands(
    running: RunningGateway,
    client: Client,
    topic: TopicDescription,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a new producer's second batch lands alone, and its first one is out of order."""

    def sent(number: int) -> Any:
        one = client_batch("a", producer_id=7, producer_epoch=0, base_sequence=number)
        return produce_request(9, topic.name, (0, one))

    async def broken() -> None:
        monkeypatch.undo()
        [connection] = running.server.gateway.connections
        await turns_until(lambda: bool(connection._waiting))
        raise StorageError("the disk is gone")

    monkeypatch.setattr(running.server.gateway, "newest_image", broken)
    monkeypatch.setattr(produce, "_knows", lambda *_: False)  # a sign of life may have looked
    for number in range(2):
        client.send(sent(number))
    with suppress(ConnectionError):
        assert client.receive_frame() == b""
    with Client(running.port) as again:
        assert [answers(again.ask(sent(number))) for number in range(2)] == [
            [(0, 0, 0)],
            [(0, 0, 1)],
        ]


def test_batches_have_the_leader_epoch_of_their_partition(
    running: RunningGateway, client: Client, topic: TopicDescription
) -> None:
    """Partitions of an imported topic have different ones.

    A client that has seen a newer epoch than its metadata waits for newer metadata.
    """
    catalog = running.server.gateway.catalog
    states = {0: PartitionState(leader_epoch=2), 1: PartitionState(leader_epoch=7)}
    catalog.commit(topic, lambda _: TopicEdit(partitions=states), operation="TEST")
    for partition in (0, 1):
        client.ask(produce_request(9, topic.name, (partition, client_batch("a"))))
    found = catalog.topic_image(topic)
    logs = [found.partition(number) for number in (0, 1)]
    assert [log.epochs[-1].epoch for log in logs] == [log.leader_epoch for log in logs] == [2, 7]
    assert [log.segments.entry(0).max_leader_epoch for log in logs] == [2, 7]


class TestRefused:
    def test_a_topic_that_is_not_there(self, client: Client) -> None:
        asked = produce_request(9, "nowhere", (0, client_batch("a")))
        assert answers(client.ask(asked)) == [(0, ErrorCode.unknown_topic_or_partition, -1)]

    def test_an_id_that_no_topic_has(self, client: Client) -> None:
        asked = produce_request(13, UUID(int=7), (0, client_batch("a")))
        assert answers(client.ask(asked)) == [(0, ErrorCode.unknown_topic_id, -1)]

    @pytest.mark.parametrize("version", [9, 13])
    def test_a_topic_that_was_deleted_since_the_last_look(
        self, client: Client, topic: TopicDescription, tmp_path: Path, version: int
    ) -> None:
        asked = produce_request(version, named(topic, version), (1, client_batch("a")))
        assert answers(client.ask(asked)) == [(1, 0, 0)]
        AdminClient(tmp_path / "log").delete_topics([topic.name])
        unknown = ErrorCode.unknown_topic_id if version == 13 else UNKNOWN
        assert answers(client.ask(asked)) == [(1, unknown, -1)]

    def test_a_topic_that_was_made_anew_gets_the_second_try(
        self, client: Client, topic: TopicDescription, tmp_path: Path
    ) -> None:
        asked, admin = produce_request(9, "flights", (1, client_batch("a"))), tmp_path / "log"
        assert answers(client.ask(asked)) == [(1, 0, 0)]
        AdminClient(admin).delete_topics([topic.name])
        AdminClient(admin).create_topics([NewTopic(topic.name, topic.num_partitions)])
        assert answers(client.ask(asked)) == [(1, UNKNOWN, -1)]
        assert answers(client.ask(asked)) == [(1, 0, 0)]

    def test_a_partition_that_is_not_there_and_the_others_land(
        self, client: Client, topic: TopicDescription, tmp_path: Path
    ) -> None:
        parts = [(7, client_batch("a")), (1, client_batch("b"))]
        found = answers(client.ask(produce_request(9, topic.name, *parts)))
        assert found == [(7, ErrorCode.unknown_topic_or_partition, -1), (1, 0, 0)]
        assert values(tmp_path / "log", "flights", 1) == [b"b"]

    def test_a_damaged_batch(self, client: Client, topic: TopicDescription) -> None:
        batch = bytearray(client_batch("abc"))
        batch[-2] ^= 1
        asked = produce_request(9, topic.name, (0, bytes(batch)))
        assert answers(client.ask(asked)) == [(0, ErrorCode.corrupt_message, -1)]

    @pytest.mark.parametrize("version", range(8, 14))
    def test_the_records_that_are_to_blame_are_named(
        self, running: RunningGateway, client: Client, version: int
    ) -> None:
        compacted = NewTopic("keyed", 1, {"cleanup.policy": "compact"})
        [topic] = running.server.gateway.admin.create_topics([compacted])
        batch = client_batch("a", "b", "c", keys=[None, b"k", None])
        asked = produce_request(version, named(topic, version), (0, batch))
        [answer] = client.ask(asked).responses[0].partition_responses
        assert int(answer.error_code) == ErrorCode.invalid_record
        assert [one.batch_index for one in answer.record_errors] == [0, 2]
        assert "record 1 of 3 is the first without a key" in answer.error_message
        told = {one.batch_index_error_message for one in answer.record_errors}
        assert told == {answer.error_message}

    def test_acks_that_no_producer_may_ask_for(
        self, client: Client, topic: TopicDescription
    ) -> None:
        asked = produce_request(9, topic.name, (0, client_batch("a")), acks=2)
        assert answers(client.ask(asked)) == [(0, ErrorCode.invalid_required_acks, -1)]


@pytest.mark.parametrize(("flush", "is_durable"), [("fsync", True), ("none", False)])
def test_flush_says_whether_it_is_durable_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: str, is_durable: bool
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(LocalFiles, "sync_directory", lambda _, path: synced.append(path))
    with gateway(tmp_path / "log", flush=flush) as running, Client(running.port) as client:
        running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
        del synced[:]
        asked = produce_request(9, "flights", (0, client_batch("a")))
        assert answers(client.ask(asked)) == [(0, 0, 0)]
        assert (ENTRIES in synced) is is_durable


class TestWithoutAcknowledgement:
    def test_it_lands_and_nothing_is_answered(
        self, client: Client, topic: TopicDescription, tmp_path: Path
    ) -> None:
        client.send(produce_request(9, topic.name, (0, client_batch("a")), acks=0))
        found = client.ask(produce_request(9, topic.name, (0, client_batch("b"))))
        assert answers(found) == [(0, 0, 1)]
        assert values(tmp_path / "log", "flights", 0) == [b"a", b"b"]

    def test_an_error_closes_the_connection_behind_earlier_answers(
        self, client: Client, topic: TopicDescription
    ) -> None:
        client.ask(produce_request(9, topic.name, (0, client_batch("a"))))
        client.send(produce_request(9, topic.name, (0, client_batch("b"))))
        client.send(produce_request(9, topic.name, (0, client_batch("c")[:-1]), acks=0))
        client.send(produce_request(9, topic.name, (0, client_batch("d"))))
        assert answers(client.receive(ApiKey.PRODUCE, 9)) == [(0, 0, 1)]
        assert client.receive_frame() == b""

    def test_an_error_closes_the_connection(self, client: Client) -> None:
        client.send(produce_request(9, "nowhere", (0, client_batch("a")), acks=0))
        assert client.receive_frame() == b""


def test_an_unanswered_request_lands_when_the_gateway_ends(
    running: RunningGateway, client: Client, topic: TopicDescription, tmp_path: Path
) -> None:
    client.ask(produce_request(9, topic.name, (0, client_batch("a"))))
    client.send(produce_request(9, topic.name, (0, client_batch("b"))))
    found = client.receive(ApiKey.PRODUCE, 9)
    running.run(running.server.close())
    assert answers(found) == [(0, 0, 1)]
    assert client.receive_frame() == b""


class TestInitProducerId:
    @pytest.mark.parametrize("version", range(6))
    def test_every_producer_gets_an_id_of_its_own(self, client: Client, version: int) -> None:
        found = [client.ask(init_request(version)) for _ in range(3)]
        assert {int(one.error_code) for one in found} == {0}
        assert len({one.producer_id for one in found}) == 3

    def test_two_gateways_give_other_ids(self, client: Client, tmp_path: Path) -> None:
        with gateway(tmp_path / "log") as other, Client(other.port) as its_client:
            found = {one.ask(init_request(4)).producer_id for one in (client, its_client)}
        assert len(found) == 2


def init_request(version: int) -> Any:
    fields = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    return body(ApiKey.INIT_PRODUCER_ID, version, transaction_timeout=SOON, **fields)


def test_an_id_does_not_show_the_name_of_a_topic_that_may_not_be_written(
    running: RunningGateway, topic: TopicDescription, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant_only(monkeypatch)
    asked = produce_request(13, uuid_of(topic.topic_id), (0, client_batch("a")))
    with Client(running.port) as client:
        [answer] = client.ask(asked).responses[0].partition_responses
    assert answer.error_code == ErrorCode.topic_authorization_failed
    assert "flights" not in answer.error_message
