"""A broker is stopped amid transactions; their producers go on at a gateway, and notice nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient
from sparklog.wire.protocol.versions import ApiKey
from tests.command_line import CommandLine
from tests.kafka.broker import Broker, running_broker
from tests.transactions import Instance
from tests.waiting import until
from tests.wire.gateways import Client, gateway
from tests.wire.grouping import GroupMember
from tests.wire.requests import body
from tests.wire.storming import SUBSCRIPTION

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


def test_members_of_a_group_go_on(broker: Broker, tmp_path: Path) -> None:
    place = "t", 1
    with Client(int(broker.bootstrap.rsplit(":", 1)[1])) as client:
        member = GroupMember(client)
        asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=(member.group,), key_type=0)
        until(lambda: client.ask(asked).coordinators[0].error_code is ErrorCode.none)
        until(lambda: member.join(SUBSCRIPTION).error_code is ErrorCode.none)
        member.sync({member.member_id: b"everything"})
        assert member.commit({place: 7}) == [ErrorCode.none]
    broker.stop()
    path = str(tmp_path / "log")
    CommandLine(path).done("import", broker.data_dir)
    CommandLine(path).done("import", broker.data_dir, "--topic", "__consumer_offsets")

    with gateway(path) as running, Client(running.port) as client:
        member.client = client
        assert member.heartbeat() is ErrorCode.none
        assert bytes(member.sync().assignment) == b"everything"
        assert member.committed(place) == {place: 7}
        assert member.commit({place: 8}) == [ErrorCode.none]
