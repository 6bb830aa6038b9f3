"""One of two gateways is killed under load: the other one takes its partitions and groups over."""

import threading
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient as KafkaAdmin

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.placement import partition_of
from sparklog.log.names import partition_dir
from sparklog.testing import TemporaryLogDir
from sparklog.wire.instances import Instance, leader_of
from tests.waiting import until
from tests.wire.processes import GatewayProcess, gateway_process
from tests.wire.test_killed import Sender

PARTITIONS = 2
RECORDS = 4000
BOTH = [Instance(number, "", 0) for number in (0, 1)]
OPTIONS = ("--group-initial-rebalance-delay-ms", "0", "--node-id")


class Reader:
    """A member of a group, on a thread: the offsets of each partition in the order of reading."""

    def __init__(self, address: str, group: str) -> None:
        configs = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 100}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "session.timeout.ms": 6_000,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                **configs,
            }
        )
        self.found: dict[tuple[int, int], int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        self._consumer.subscribe(["t"])
        while not self._is_over.is_set():
            given = self._consumer.consume(500, timeout=0.2)
            for one in [message for message in given if message.error() is None]:
                place = one.partition() or 0, one.offset() or 0
                self.found[place] = int(one.value() or b"")


def led_by(node_id: int) -> str:
    """The name of a group whose coordinator is this one of both."""
    names = (f"readers-{number}" for number in count())
    return next(name for name in names if coordinator_of(name) == node_id)


def coordinator_of(group: str) -> int:
    return leader_of(partition_dir("__consumer_offsets", partition_of(group, 50)), BOTH).node_id


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    [topic] = AdminClient(log_dir).create_topics([NewTopic("t", PARTITIONS)])
    leader = leader_of(topic.topic_id, BOTH).node_id
    with (
        gateway_process(log_dir, *OPTIONS, "0") as first,
        gateway_process(log_dir, *OPTIONS, "1") as second,
    ):
        addresses = f"{first.address},{second.address}"
        senders = [Sender(addresses, partition) for partition in range(PARTITIONS)]
        with Reader(addresses, led_by(leader)) as reader:
            send_and_kill(senders, [first, second][leader], log_dir)
            until(lambda: len(reader.found) >= PARTITIONS * RECORDS)
        survivor = [second, first][leader]
        brokers = KafkaAdmin({"bootstrap.servers": survivor.address}).list_topics(timeout=30)
    numbers = range(RECORDS)
    for partition, sender in enumerate(senders):
        values = TemporaryLogDir(log_dir)["t"].values(partition)
        assert [int(value or b"") for value in values] == [*numbers]
        assert sender.outcomes == {number: (None, number) for number in numbers}
    parts = range(PARTITIONS)
    assert reader.found == {(part, number): number for part in parts for number in numbers}
    assert [*brokers.brokers] == [1 - leader]


def send_and_kill(senders: list[Sender], victim: GatewayProcess, log_dir: Path) -> None:
    """Send half, kill a gateway while the other half is sent; return when all is acknowledged."""
    topic = TemporaryLogDir(log_dir)["t"]
    for sender in senders:
        sender.send(0, RECORDS // 2)
    until(lambda: len(topic.values()) > RECORDS // 2)
    rest = [
        threading.Thread(target=sender.send, args=(RECORDS // 2, RECORDS)) for sender in senders
    ]
    for one in rest:
        one.start()
    victim.kill()
    for one in rest:
        one.join()
    assert [sender.flush() for sender in senders] == [0] * len(senders)
