"""The partitions of a topic at several instances: every answer names the same leaders."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.test_metadata import topics_asked
from tests.wire.test_partitions import describe, log_dir, sizes
from tests.wire.test_replicas import move, moved, put

NODE_IDS = (3, 5, 8)
PARTITIONS = 7
Leaders = dict[int, int]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[RunningGateway]]:
    """Three instances, with the topic `t`."""
    log = tmp_path / "log"
    with (
        gateway(log, node_id=NODE_IDS[0]) as first,
        gateway(log, node_id=NODE_IDS[1]) as second,
        gateway(log, node_id=NODE_IDS[2]) as third,
    ):
        first.server.gateway.admin.create_topics([NewTopic("t", PARTITIONS)])
        yield [first, second, third]


def leaders(running: RunningGateway) -> Leaders:
    """The leaders of the partitions of `t`, by Metadata of an instance."""
    with Client(running.port) as client:
        [topic] = client.ask(topics_asked(12, "t")).topics
    assert all(one.replica_nodes == one.isr_nodes == (one.leader_id,) for one in topic.partitions)
    return {one.partition_index: one.leader_id for one in topic.partitions}


def described(running: RunningGateway) -> Leaders:
    """The same, by DescribeTopicPartitions."""
    with Client(running.port) as client:
        [topic] = describe(client, "t").topics
    assert all(one.replica_nodes == one.isr_nodes == (one.leader_id,) for one in topic.partitions)
    return {one.partition_index: one.leader_id for one in topic.partitions}


def of_log_dirs(running: list[RunningGateway]) -> list[tuple[int, int]]:
    """The partitions and the node ids of the instances whose DescribeLogDirs has them."""
    found = []
    for one, node_id in zip(running, NODE_IDS, strict=True):
        with Client(one.port) as client:
            found += [(number, node_id) for _, number in sizes(log_dir(client))]
    return found


def test_all_apis_of_all_instances_agree(three: list[RunningGateway]) -> None:
    found = leaders(three[0])
    assert sorted([*found.values()].count(one) for one in NODE_IDS) == [2, 2, 3]
    assert [leaders(one) for one in three] == [found] * 3
    assert [described(one) for one in three] == [found] * 3
    assert sorted(of_log_dirs(three)) == sorted(found.items())
    text = three[1].run(three[1].server.gateway.kafka_metrics()).decode()
    for number, leader in found.items():
        sample = f'kafka_topic_partition_leader{{partition="{number}",topic="t"}} {leader}.0'
        assert sample in text


def test_a_replica_is_where_the_leader_is(three: list[RunningGateway], tmp_path: Path) -> None:
    found = leaders(three[0])
    with Client(three[0].port) as client:
        moves = [("t", number, [node_id]) for number in found for node_id in NODE_IDS]
        codes = moved(move(client, *moves))
        placed = put(client, (str(tmp_path / "log"), "t", [*found]))
    refused = ErrorCode.invalid_replica_assignment
    assert codes == [
        ErrorCode.none if found[number] == node_id else refused for _, number, [node_id] in moves
    ]
    assert placed == {
        ("t", number): ErrorCode.none if leader == NODE_IDS[0] else ErrorCode.replica_not_available
        for number, leader in found.items()
    }


def test_instances_in_racks_are_replicas(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with gateway(log, node_id=3, rack="a") as first, gateway(log, node_id=5, rack="b"):
        first.server.gateway.admin.create_topics([NewTopic("t", 2)])
        with Client(first.port) as client:
            [told] = client.ask(topics_asked(12, "t")).topics
            [described] = describe(client, "t").topics
            replicas = {one.partition_index: one.replica_nodes for one in told.partitions}
            moves = [("t", 0, replicas[0]), ("t", 1, replicas[0]), ("t", 0, [3])]
            codes = moved(move(client, *moves))
            placed = put(client, (str(log), "t", [0, 1]))
    assert {*placed.values()} == {ErrorCode.none}
    assert sorted(replicas.values()) == [(3, 5), (5, 3)]
    assert [one.isr_nodes for one in told.partitions] == [*replicas.values()]
    assert {one.partition_index: one.replica_nodes for one in described.partitions} == replicas
    assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.invalid_replica_assignment]


def test_the_others_take_over_what_one_has_led(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with gateway(log, node_id=NODE_IDS[0]) as first:
        first.server.gateway.admin.create_topics([NewTopic("t", PARTITIONS)])
        assert leaders(first) == dict.fromkeys(range(PARTITIONS), NODE_IDS[0])
        with gateway(log, node_id=NODE_IDS[1]) as second:
            with gateway(log, node_id=NODE_IDS[2]):
                assert set(leaders(first).values()) == set(NODE_IDS)
            left = leaders(second)
            assert leaders(first) == left
        assert sorted([*left.values()].count(one) for one in NODE_IDS) == [0, 3, 4]
        assert leaders(first) == dict.fromkeys(range(PARTITIONS), NODE_IDS[0])
