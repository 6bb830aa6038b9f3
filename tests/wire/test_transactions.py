"""confluent-kafka's transactional producer, and consumers that read what is committed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.error import KafkaError

from sparklog.admin import NewTopic
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.fetching import NEWEST, Part, fetch_request, partitions_of
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.test_fetch_waiting import until_it_waits


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


def consumer(running: RunningGateway, group: str = "g", topic: str = "a") -> Consumer:
    """A member of a group, which reads partition 0 of a topic."""
    told = {"bootstrap.servers": running.address, "group.id": group}
    told |= {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    found = Consumer({**told, "isolation.level": "read_committed"})
    found.subscribe([topic])
    return found


def committed(running: RunningGateway, group: str = "g", topic: str = "a") -> int:
    """The offset that a group has committed."""
    reader = Consumer({"bootstrap.servers": running.address, "group.id": group})
    (found,) = reader.committed([TopicPartition(topic, 0)], 30)
    reader.close()
    return int(found.offset)


class TestReadProcessWrite:
    def test_offsets_are_committed_with_the_records(self, running: RunningGateway) -> None:
        first = transactional(running, "first")
        first.begin_transaction()
        produce(first, "1", "2", "3")
        first.commit_transaction(30)
        worker, reader = transactional(running, "worker"), consumer(running)
        try:
            for ends in ("abort", "commit"):
                message = reader.poll(30)
                assert message is not None
                worker.begin_transaction()
                worker.produce("b", b"done", partition=0)
                places = [
                    TopicPartition("a", message.partition() or 0, (message.offset() or 0) + 1)
                ]
                worker.send_offsets_to_transaction(places, reader.consumer_group_metadata(), 30)
                getattr(worker, f"{ends}_transaction")(30)
            place = places[0]
            assert reader.committed([place], 30)[0].offset == place.offset
            assert read(running, "b").count("done") == 1
        finally:
            reader.close()

    def test_a_group_goes_on_where_a_transaction_left_it(self, running: RunningGateway) -> None:
        worker = transactional(running)
        worker.begin_transaction()
        produce(worker, "1", "2", "3")
        other = Consumer({"bootstrap.servers": running.address, "group.id": "g"})
        places = [TopicPartition("a", 0, 2)]
        worker.send_offsets_to_transaction(places, other.consumer_group_metadata(), 30)
        other.close()
        worker.commit_transaction(30)

        assert committed(running) == 2
        with gateway(running.server.gateway.settings.log_dir) as another:
            assert committed(another) == 2

    def test_the_end_overwrites_an_offset_that_the_group_committed_meanwhile(
        self, running: RunningGateway
    ) -> None:
        worker = transactional(running)
        worker.begin_transaction()
        produce(worker, "1", "2", "3")
        other = Consumer({"bootstrap.servers": running.address, "group.id": "g"})
        metadata = other.consumer_group_metadata()
        worker.send_offsets_to_transaction([TopicPartition("a", 0, 2)], metadata, 30)
        other.commit(offsets=[TopicPartition("a", 0, 3)], asynchronous=False)
        other.close()

        worker.commit_transaction(30)

        assert committed(running) == 2


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


def test_a_waiting_fetch_tells_the_newest_high_watermark(running: RunningGateway) -> None:
    """Goal: records of an open transaction end no read_committed fetch, but its answer counts them.

    Without that, the statistics of a client would be as old as its fetch.max.wait.ms.
    """
    producer = transactional(running)
    producer.begin_transaction()
    produce(producer, "a")
    topic = running.server.gateway.catalog.topic("a")
    with Client(running.port) as client:
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=3_000, committed=True))
        until_it_waits(running)
        produce(producer, "b")
        [found] = partitions_of(client.receive(ApiKey.FETCH, NEWEST))
    assert (found.last_stable_offset, found.high_watermark) == (0, 2)
    producer.abort_transaction(30)
