"""Fetch: committed records, in every version; limits, racks and errors as a broker has them."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode

from sparklog.metadata.state.edit import EpochStart, OpenTransaction, PartitionState, TopicEdit
from sparklog.model import AbortedRange, TopicDescription
from sparklog.testing import Record, TemporaryTopic
from sparklog.wire.instances import Instances, leaders_of
from sparklog.wire.serving.server import LET_GO_SWEEPS
from tests.client_batches import client_batch
from tests.wire.fetching import (
    MANY,
    NEWEST,
    VERSIONS,
    Part,
    errors,
    fetch_request,
    fetched,
    offsets,
    partitions_of,
    values,
)
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.test_produce import produce_request


def edit(running: RunningGateway, topic: TopicDescription, **fields: object) -> None:
    """Commit an edit of a topic."""
    change = TopicEdit(**fields)  # type: ignore[arg-type] # fields of an edit
    running.server.gateway.catalog.commit(topic, lambda _: change, operation="TEST")


class TestAnswers:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_have_the_records(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription, version: int
    ) -> None:
        flights.produce("a", "b", Record("c", partition=1))
        flights.produce(Record("d", partition=0))
        [first, second] = fetched(client, topic, Part(0), Part(1), version=version)
        found = sorted(values(first) + values(second))
        assert (found, errors([first, second])) == (["a", "b", "c", "d"], [0, 0])
        assert first.high_watermark == first.last_stable_offset == len(values(first))
        assert first.aborted_transactions is None
        if version >= 5:
            assert first.log_start_offset == 0
        if version >= 11:
            assert first.preferred_read_replica == -1

    def test_have_no_session(self, client: Client, topic: TopicDescription) -> None:
        asked = fetch_request(NEWEST, topic, Part(), session_id=0, session_epoch=0)
        assert client.ask(asked).session_id == 0

    def test_begin_with_the_batch_that_holds_the_offset(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        for text in "ab", "cde", "f":
            flights.produce(*(Record(one, partition=0) for one in text))
        [found] = fetched(client, topic, Part(offset=3))
        assert values(found) == ["c", "d", "e", "f"]

    def test_have_the_offsets_of_the_log(
        self, running: RunningGateway, client: Client, topic: TopicDescription
    ) -> None:
        for text in "abc":
            client.ask(produce_request(9, "flights", (0, client_batch(text))))
        [found] = fetched(client, topic, Part())
        assert offsets(found) == [0, 1, 2]

    def test_are_empty_at_the_end(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        flights.produce(Record("a", partition=0))
        [found] = fetched(client, topic, Part(offset=1))
        assert (values(found), errors([found])) == ([], [0])

    def test_of_nothing_are_empty(self, client: Client, topic: TopicDescription) -> None:
        assert partitions_of(client.ask(fetch_request(NEWEST, topic, wait_ms=MANY))) == []


class TestLimits:
    @pytest.fixture(autouse=True)
    def _filled(self, flights: TemporaryTopic) -> None:
        for partition in (0, 1):
            for text in "abc":
                flights.produce(Record(text * 100, partition=partition))

    def counts(self, client: Client, topic: TopicDescription, *sizes: int) -> list[int]:
        """The records of each partition of an answer; the sizes are the limits."""
        in_all, *each = sizes
        parts = [Part(number, max_bytes=size) for number, size in enumerate(each)]
        return [len(values(one)) for one in fetched(client, topic, *parts, max_bytes=in_all)]

    def test_one_batch_is_answered_however_large(
        self, client: Client, topic: TopicDescription
    ) -> None:
        assert self.counts(client, topic, 1, 1, 1) == [1, 0]

    def test_batches_are_whole(self, client: Client, topic: TopicDescription) -> None:
        [one] = fetched(client, topic, Part(max_bytes=1))
        size = len(one.records)
        assert self.counts(client, topic, MANY, 3 * size - 1, 2 * size) == [2, 2]

    def test_partitions_share_the_bytes(self, client: Client, topic: TopicDescription) -> None:
        [one] = fetched(client, topic, Part(max_bytes=1))
        size = len(one.records)
        assert self.counts(client, topic, 4 * size, MANY, MANY) == [3, 1]

    def test_the_least_bytes_are_never_more_than_the_most(
        self, client: Client, topic: TopicDescription
    ) -> None:
        [found] = fetched(client, topic, Part(), wait_ms=MANY, min_bytes=MANY, max_bytes=1)
        assert len(values(found)) == 1


class TestErrors:
    def test_an_offset_outside_the_log(
        self,
        running: RunningGateway,
        client: Client,
        flights: TemporaryTopic,
        topic: TopicDescription,
    ) -> None:
        flights.produce(*(Record(text, partition=0) for text in "abc"))
        edit(running, topic, partitions={0: PartitionState(log_start_offset=2)})
        parts = [Part(offset=offset) for offset in (-1, 1, 2, 3, 4)]
        answers = [fetched(client, topic, part, wait_ms=100)[0] for part in parts]
        out = ErrorCode.offset_out_of_range
        assert errors(answers) == [out, out, 0, 0, out]
        assert answers[0].high_watermark == answers[0].log_start_offset == -1

    def test_a_topic_that_is_not_there(self, client: Client, topic: TopicDescription) -> None:
        [found] = fetched(client, "nowhere", version=12, wait_ms=MANY)
        assert found.error_code == ErrorCode.unknown_topic_or_partition

    def test_an_id_that_no_topic_has(self, client: Client, topic: TopicDescription) -> None:
        [found] = fetched(client, UUID(int=7), wait_ms=MANY)
        assert found.error_code == ErrorCode.unknown_topic_id

    def test_a_file_that_is_gone(
        self,
        client: Client,
        flights: TemporaryTopic,
        topic: TopicDescription,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        flights.produce(Record("a", partition=0))
        for path in (tmp_path / "log").rglob("*.log"):
            path.unlink()
        answers = fetched(client, topic, Part(0), Part(1), wait_ms=MANY)
        assert errors(answers) == [ErrorCode.kafka_storage_error, 0]
        assert "FETCH failed: cannot read" in caplog.text

    def test_a_file_that_is_damaged(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription, tmp_path: Path
    ) -> None:
        flights.produce(Record("a", partition=0))
        for path in (tmp_path / "log").rglob("*.log"):
            path.write_bytes(b"")
        assert errors(fetched(client, topic, wait_ms=MANY)) == [ErrorCode.corrupt_message]

    def test_a_partition_that_is_not_there(self, client: Client, topic: TopicDescription) -> None:
        answers = fetched(client, topic, Part(0), Part(2), wait_ms=MANY)
        assert errors(answers) == [0, ErrorCode.unknown_topic_or_partition]

    @pytest.mark.parametrize(("session_id", "epoch"), [(7, 1), (0, 1)])
    def test_a_session(
        self, client: Client, topic: TopicDescription, session_id: int, epoch: int
    ) -> None:
        asked = fetch_request(NEWEST, topic, Part(), session_id=session_id, session_epoch=epoch)
        answer = client.ask(asked)
        found = (answer.error_code, answer.session_id, answer.responses)
        assert found == (ErrorCode.fetch_session_id_not_found, 0, ())

    def test_a_leader_epoch_that_is_over_or_to_come(
        self, running: RunningGateway, client: Client, topic: TopicDescription
    ) -> None:
        edit(running, topic, partitions={0: PartitionState(leader_epoch=5)})
        answers = [fetched(client, topic, Part(epoch=one))[0] for one in (4, 5, 6)]
        fenced, unknown = ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch
        assert errors(answers) == [fenced, 0, unknown]
        assert [one.current_leader.leader_epoch for one in answers] == [5, -1, -1]
        answer = client.ask(fetch_request(NEWEST, topic, Part(epoch=4)))
        assert [one.port for one in answer.node_endpoints] == [running.port]

    def test_a_fetched_epoch_that_ended_before(
        self,
        running: RunningGateway,
        client: Client,
        flights: TemporaryTopic,
        topic: TopicDescription,
    ) -> None:
        flights.produce(*(Record(text, partition=0) for text in "abcde"))
        edit(running, topic, epochs={0: (EpochStart(0, 0), EpochStart(2, 3))})
        parts = [Part(0, 4, fetched_epoch=one) for one in (0, 2, 9)]
        [old, same, new] = [fetched(client, topic, part)[0] for part in parts]
        assert (old.diverging_epoch.epoch, old.diverging_epoch.end_offset) == (0, 3)
        assert (values(old), same.diverging_epoch.epoch) == ([], -1)
        assert new.error_code == ErrorCode.offset_out_of_range


class TestCommitted:
    @pytest.fixture(autouse=True)
    def _filled(
        self, running: RunningGateway, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        for text in "abc":
            flights.produce(Record(text, partition=0))
        open_now = (OpenTransaction(producer_id=7, first_offset=2),)
        edit(running, topic, transactions={0: open_now})

    def test_a_reader_ends_at_the_last_stable_offset(
        self, client: Client, topic: TopicDescription
    ) -> None:
        [all_, found] = [fetched(client, topic, committed=one)[0] for one in (False, True)]
        assert (values(all_), values(found)) == (["a", "b", "c"], ["a", "b"])
        assert (found.high_watermark, found.last_stable_offset) == (3, 2)
        assert found.aborted_transactions == ()

    def test_behind_it_nothing_is_read_and_nothing_is_wrong(
        self, client: Client, topic: TopicDescription
    ) -> None:
        [found] = fetched(client, topic, Part(offset=3), committed=True)
        assert (values(found), errors([found])) == ([], [0])

    def test_nothing_is_read_in_a_gap_before_it(
        self, running: RunningGateway, client: Client, topic: TopicDescription
    ) -> None:
        image = running.server.gateway.catalog.topic_image(topic)
        edit(running, topic, remove=[image.partition(0).entries()[1].key])
        [found] = fetched(client, topic, Part(offset=1), committed=True)
        assert (values(found), errors([found]), found.aborted_transactions) == ([], [0], ())

    def test_aborted_transactions_are_told_and_not_left_out(
        self, running: RunningGateway, client: Client, topic: TopicDescription
    ) -> None:
        gateway = running.server.gateway
        image = gateway.catalog.topic_image(topic)
        entries = [
            entry._replace(aborted=(AbortedRange(9, 0, 0), AbortedRange(8, -1, 0)))
            for entry in image.partition(0).entries()[1:2]
        ]
        edit(running, topic, replace=entries)
        [found] = fetched(client, topic, committed=True)
        told = [(one.producer_id, one.first_offset) for one in found.aborted_transactions]
        assert (values(found), told) == (["a", "b"], [(8, 0), (9, 1)])
        [found] = fetched(client, topic, Part(max_bytes=1), committed=True)
        assert found.aborted_transactions == ()


class TestRacks:
    @pytest.fixture
    def running(self, tmp_path: Path) -> Iterator[RunningGateway]:
        with gateway(tmp_path / "log", rack="a") as found:
            yield found

    @pytest.fixture(autouse=True)
    def _others(self, running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        own = running.server.gateway.instances.own
        others = [own._replace(node_id=8, rack="b"), own._replace(node_id=9, rack=None)]
        others += [own._replace(node_id=one, rack="d") for one in (10, 11)]
        monkeypatch.setattr(Instances, "alive", [own, *others])

    @pytest.mark.parametrize(("rack", "replica"), [("a", -1), ("b", 8), ("c", -1), ("", -1)])
    def test_a_client_is_sent_to_the_instance_of_its_rack(
        self,
        client: Client,
        flights: TemporaryTopic,
        topic: TopicDescription,
        rack: str,
        replica: int,
    ) -> None:
        flights.produce(Record("a", partition=0))
        [found] = fetched(client, topic, rack_id=rack, wait_ms=MANY)
        assert found.preferred_read_replica == replica
        assert (values(found), found.high_watermark) == (["a"] if replica < 0 else [], 1)

    def test_several_instances_of_a_rack_share_the_partitions(
        self, client: Client, topic: TopicDescription
    ) -> None:
        found = fetched(client, topic, Part(0), Part(1), rack_id="d")
        replicas = [one.preferred_read_replica for one in found]
        assert sorted(replicas) == [10, 11]
        assert replicas == [*leaders_of(topic.topic_id, (10, 11)).node_ids]


def test_a_client_is_told_the_leader_of_each_partition(
    running: RunningGateway,
    client: Client,
    topic: TopicDescription,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = running.server.gateway.instances.own
    other = own._replace(node_id=9, port=1)
    edit(running, topic, partitions={one: PartitionState(leader_epoch=5) for one in (0, 1)})
    monkeypatch.setattr(Instances, "at", lambda *_: [own, other])
    answer = client.ask(fetch_request(NEWEST, topic, Part(0, epoch=4), Part(1, epoch=4)))
    leaders = [one.current_leader.leader_id for one in partitions_of(answer)]
    assert leaders == [*leaders_of(topic.topic_id, (own.node_id, 9)).node_ids]
    assert {one.node_id: one.port for one in answer.node_endpoints} == {0: running.port, 9: 1}


def test_files_are_let_go_of_now_and_then(
    running: RunningGateway, client: Client, flights: TemporaryTopic, topic: TopicDescription
) -> None:
    async def sweep() -> None:
        for _ in range(LET_GO_SWEEPS):
            running.server._sweep()

    flights.produce(Record("a", partition=0))
    kept = running.server.gateway.ranges._kept.cache_info
    counts = []
    for _ in range(2):
        fetched(client, topic)
        counts.append(kept().currsize)
        running.run(sweep())
        counts.append(kept().currsize)
    assert counts == [1, 0, 1, 0]


def test_librdkafka_consumes(
    running: RunningGateway, flights: TemporaryTopic, topic: TopicDescription
) -> None:
    flights.produce(*(Record(str(number), partition=number % 2) for number in range(100)))
    consumer = Consumer(
        {"bootstrap.servers": running.address, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("flights", number, 0) for number in (0, 1)])
    found = [consumer.poll(10) for _ in range(100)]
    flights.produce(Record("100", partition=1))
    found.append(consumer.poll(10))
    ends = [consumer.get_watermark_offsets(TopicPartition("flights", one)) for one in (0, 1)]
    consumer.close()
    texts = [one.value() or b"" for one in found if one is not None]
    assert sorted(texts, key=int) == [str(number).encode() for number in range(101)]
    assert ends == [(0, 50), (0, 51)]
