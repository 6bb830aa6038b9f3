"""DescribeProducers: who has produced to a partition, and since when a transaction is open."""

from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.wire.handlers.transactional import producers
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import NOW_MS, client_batch
from tests.wire.gateways import Client, RunningGateway, check_others_are_answered
from tests.wire.requests import body, part
from tests.wire.test_produce import produce_request


@pytest.fixture
def topic(running: RunningGateway) -> str:
    running.server.gateway.admin.create_topics([NewTopic("t", 2)])
    return "t"


def described(client: Client, topic: str, *partitions: int) -> Any:
    """The answers for partitions of a topic."""
    key = ApiKey.DESCRIBE_PRODUCERS
    asked = part(key, 0, "TopicRequest", name=topic, partition_indexes=partitions)
    return client.ask(body(key, 0, topics=(asked,))).topics[0].partitions


def told(found: Any) -> list[tuple[int, int, int, int, int]]:
    return [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset,
        )
        for one in found.active_producers
    ]


def test_its_last_sequence_and_time_are_told(client: Client, topic: str) -> None:
    for number, count in ((9, 1), (7, 2)):
        values = "ab"[:count]
        batch = client_batch(*values, producer_id=number, producer_epoch=3, base_sequence=5)
        client.ask(produce_request(9, topic, (0, batch)))
    first, second = described(client, topic, 0, 1)
    assert told(first) == [(7, 3, 6, NOW_MS, -1), (9, 3, 5, NOW_MS, -1)]
    assert (second.partition_index, told(second)) == (1, [])


def in_transaction(running: RunningGateway, topic: str) -> Producer:
    """A producer that has sent a record to partition 0 in an open transaction."""
    producer = Producer({"bootstrap.servers": running.address, "transactional.id": "id"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"c", partition=0)
    assert producer.flush(30) == 0
    return producer


def test_where_an_open_transaction_began_is_told(
    running: RunningGateway, client: Client, topic: str
) -> None:
    client.ask(produce_request(9, topic, (0, client_batch("a", "b"))))
    producer = in_transaction(running, topic)
    [[*_, begun]] = told(described(client, topic, 0)[0])
    producer.commit_transaction(30)
    [[*_, ended]] = told(described(client, topic, 0)[0])
    assert (begun, ended) == (2, -1)


def test_behind_a_marker_of_a_new_epoch_its_time_is_told(
    running: RunningGateway, client: Client, topic: str
) -> None:
    in_transaction(running, topic)
    found = running.server.gateway
    before_ms = found.clock.now_ms()
    assert found.transactions.abort("id")
    [[_, epoch, sequence, time_ms, begun]] = told(described(client, topic, 0)[0])
    assert (epoch, sequence, begun) == (1, -1, -1)
    assert before_ms <= time_ms <= found.clock.now_ms()


def test_the_coordinator_epoch_of_transactions_is_told(
    running: RunningGateway, client: Client, topic: str
) -> None:
    def epochs() -> dict[bool, int]:
        """The coordinator epochs, by whether it is the plain producer."""
        found = described(client, topic, 0)[0].active_producers
        return {one.producer_id == 7: one.coordinator_epoch for one in found}

    client.ask(produce_request(9, topic, (0, client_batch("a", producer_id=7, base_sequence=0))))
    plain = epochs()
    in_transaction(running, topic)
    begun = epochs()
    assert running.server.gateway.transactions.abort("id")
    assert (plain, begun, epochs()) == ({True: -1}, *[{True: -1, False: 0}] * 2)


@pytest.mark.parametrize(("name", "number"), [("t", 2), ("t", -1), ("nowhere", 0)])
@pytest.mark.usefixtures("topic")
def test_a_partition_that_there_is_not_is_refused(client: Client, name: str, number: int) -> None:
    [found] = described(client, name, number)
    assert found.error_code == ErrorCode.unknown_topic_or_partition


def test_a_partition_that_comes_twice_is_described_once(client: Client, topic: str) -> None:
    assert [one.partition_index for one in described(client, topic, 1, 0, 1)] == [1, 0]


def test_other_clients_do_not_wait_for_many_producers(
    running: RunningGateway, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = client_batch("a", producer_id=7, producer_epoch=3, base_sequence=0)
    client.ask(produce_request(9, topic, (0, batch)))
    key, slow = ApiKey.DESCRIBE_PRODUCERS, (producers, "_told")
    asked = body(key, 0, topics=(part(key, 0, "TopicRequest", name=topic, partition_indexes=(0,)),))
    check_others_are_answered(running, monkeypatch, slow, lambda: client.send(asked))
    assert client.receive(key, 0).topics[0].partitions[0].active_producers
