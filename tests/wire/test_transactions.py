"""confluent-kafka's transactional producer, and consumers that read what is committed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.error import KafkaError

from sparklog.admin import NewTopic
from tests.wire.gateways import RunningGateway, gateway


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway with two topics of two partitions."""
    with gateway(tmp_path / "log", group_initial_rebalance_delay_ms=0) as found:
        found.server.gateway.admin.create_topics([NewTopic("a", 2), NewTopic("b", 2)])
        yield found


def transactional(running: RunningGateway, name: str = "id", **configs: object) -> Producer:
    """A producer of a transactional id, ready to begin."""
    told = {"bootstrap.servers": running.address, "transactional.id": name, **configs}
    producer = Producer(told)
    producer.init_transactions(30)
    return producer


def produce(producer: Producer, *values: str) -> None:
    """Produce each value to all partitions of both topics."""
    for value in values:
        for topic in ("a", "b"):
            for partition in range(2):
                producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def read(running: RunningGateway, topic: str = "a", level: str = "read_committed") -> list[str]:
    """The values of partition 0 up to its end, as a consumer of this isolation level sees it."""
    consumer = Consumer(
        {
            "bootstrap.servers": running.address,
            "group.id": "none",
            "isolation.level": level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return found
            found.append((message.value() or b"").decode())
    finally:
        consumer.close()


class TestProducer:
    def test_what_is_committed_is_seen(self, running: RunningGateway) -> None:
        producer = transactional(running)
        producer.begin_transaction()
        produce(producer, "1", "2")
        assert read(running) == []
        assert read(running, level="read_uncommitted") == ["1", "2"]
        producer.commit_transaction(30)

        assert (read(running), read(running, "b")) == (["1", "2"], ["1", "2"])

    def test_what_is_aborted_is_not(self, running: RunningGateway) -> None:
        producer = transactional(running)
        for value, ends in (("1", "commit"), ("2", "abort"), ("3", "commit")):
            producer.begin_transaction()
            produce(producer, value)
            getattr(producer, f"{ends}_transaction")(30)

        assert (read(running), read(running, "b")) == (["1", "3"], ["1", "3"])
        assert read(running, level="read_uncommitted") == ["1", "2", "3"]

    def test_one_that_comes_again_ends_what_was_open_and_fences_the_former(
        self, running: RunningGateway
    ) -> None:
        former = transactional(running)
        former.begin_transaction()
        produce(former, "1")
        later = transactional(running)
        later.begin_transaction()
        produce(later, "2")
        later.commit_transaction(30)

        assert read(running) == ["2"]
        with pytest.raises(KafkaException) as fenced:
            former.commit_transaction(30)
        assert fenced.value.args[0].code() == KafkaError._FENCED
