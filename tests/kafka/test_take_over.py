"""A broker is stopped amid transactions; their producers go on at a gateway, and notice nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sparklog.admin import AdminClient
from tests.command_line import CommandLine
from tests.kafka.broker import Broker, running_broker
from tests.transactions import Instance
from tests.wire.gateways import gateway

pytestmark = pytest.mark.kafka

WAIT_S = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "node") as found:
        found.create_topic("t", 2)
        yield found


def begun(broker: Broker, name: str) -> Producer:
    """A producer with a record in an open transaction, and an offset of group `g`."""
    given = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 2}
    producer = Producer(given)
    producer.init_transactions(WAIT_S)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction, None)):
        producer.begin_transaction()
        producer.produce("t", f"{name} {number}".encode(), partition=0)
        assert producer.flush(WAIT_S) == 0
        if end is not None:
            end(WAIT_S)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "log_level": 2})
    group = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("t", 1, len(name))], group, WAIT_S)
    consumer.close()
    return producer


def test_open_transactions_go_on(broker: Broker, tmp_path: Path) -> None:
    returns, gone = begun(broker, "returns"), begun(broker, "gone")
    broker.stop()
    path = str(tmp_path / "log")
    sparklog = CommandLine(path)
    rows = sparklog.done("import", broker.data_dir, "--transactional-ids", "--format", "json").json
    instance = Instance(path)

    assert [(one["transactional_id"], one["state"]) for one in rows[-2:]] == [
        ("gone", "Ongoing"),
        ("returns", "Ongoing"),
    ]
    assert instance.values()[0] == ["returns 0"]  # what follows lies behind an open transaction
    with gateway(path, listen=(broker.bootstrap,), node_id=1):
        returns.produce("t", b"returns 3", partition=1)
        returns.commit_transaction(WAIT_S)
        sparklog.done("transactions", "abort", "gone")
        returns.begin_transaction()
        returns.produce("t", b"returns 4", partition=0)
        returns.commit_transaction(WAIT_S)
    del gone

    found = instance.values()
    assert found == {0: ["returns 0", "returns 2", "gone 0", "returns 4"], 1: ["returns 3"]}
    offsets = AdminClient(path).list_consumer_group_offsets("g").values()
    assert [one.offset for one in offsets if one] == [len("returns")]
