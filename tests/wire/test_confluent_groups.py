"""confluent-kafka's consumers as a group: they share partitions, commit, and go on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sparklog.admin import NewTopic
from sparklog.coordinator.offsets_topic import claim
from tests.wire.gateways import RunningGateway, gateway

QUICK = {"group_initial_rebalance_delay_ms": 0}
COUNT = 40


@contextmanager
def member(running: RunningGateway, **configs: object) -> Iterator[Consumer]:
    """A consumer of the topic, as a member of the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": running.address,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 100,
            **configs,
        }
    )
    consumer.subscribe(["flights"])
    try:
        yield consumer
    finally:
        consumer.close()


def produce(running: RunningGateway, start: int, end: int) -> None:
    """Produce numbers to the partitions in turn."""
    producer = Producer({"bootstrap.servers": running.address})
    for number in range(start, end):
        producer.produce("flights", str(number).encode(), partition=number % 4)
    assert producer.flush(30) == 0


def read(consumer: Consumer, count: int) -> list[int]:
    """The next records' numbers, in order."""
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count} records"
        assert message.error() is None, message.error()
        found.append(int(message.value() or b""))
    return sorted(found)


def shares(*consumers: Consumer) -> list[int]:
    """How many partitions each member has when all four are given out."""
    found = [0]
    while sum(found) != 4 or not all(found):
        for one in consumers:
            assert one.poll(0.05) is None
        found = [len(one.assignment()) for one in consumers]
    return found


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway with a topic of four partitions."""
    with gateway(tmp_path / "log", **QUICK) as found:
        found.server.gateway.admin.create_topics([NewTopic("flights", 4)])
        yield found


def test_a_consumer_that_comes_again_goes_on_behind_what_it_committed(
    running: RunningGateway,
) -> None:
    produce(running, 0, COUNT)
    with member(running) as consumer:
        assert read(consumer, COUNT) == list(range(COUNT))
        consumer.commit(asynchronous=False)
        places = consumer.committed([TopicPartition("flights", one) for one in range(4)], 30)
        assert [one.offset for one in places] == [COUNT // 4] * 4
    produce(running, COUNT, COUNT + 8)
    with member(running) as consumer:
        assert read(consumer, 8) == list(range(COUNT, COUNT + 8))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_consumers_share_the_partitions(running: RunningGateway, strategy: str) -> None:
    configs = {"partition.assignment.strategy": strategy}
    with member(running, **configs) as first:
        with member(running, **configs) as second:
            assert shares(first, second) == [2, 2]
        assert shares(first) == [4]


def test_another_gateway_goes_on_with_the_group(tmp_path: Path) -> None:
    with gateway(tmp_path / "log", **QUICK) as running:
        running.server.gateway.admin.create_topics([NewTopic("flights", 4)])
        produce(running, 0, COUNT)
        with member(running) as consumer:
            read(consumer, COUNT)
            consumer.commit(asynchronous=False)
    with gateway(tmp_path / "log", **QUICK) as running:
        produce(running, COUNT, COUNT + 8)
        with member(running) as consumer:
            assert read(consumer, 8) == list(range(COUNT, COUNT + 8))


def test_a_leader_epoch_that_the_partition_has_not_had_is_not_told(
    running: RunningGateway,
) -> None:
    """Kafka's Java consumers wait for a leader of that epoch, and fetch nothing."""
    catalog = running.server.gateway.catalog
    claim(catalog, catalog.topic("flights"), 1)  # raises its epoch to 1
    with member(running) as consumer:
        places = [TopicPartition("flights", number, 3, leader_epoch=1) for number in (0, 1)]
        consumer.unsubscribe()
        consumer.commit(offsets=places, asynchronous=False)
        found = consumer.committed(places, timeout=30)
    assert [(one.offset, one.leader_epoch) for one in found] == [(3, None), (3, 1)]
