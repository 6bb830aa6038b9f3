"""Elections, reassignments, log dirs: what a broker answers for partitions with one replica.

The codes are those of a Kafka 4.1.1 broker that was asked the same.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.wire.instances import leader_of
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.requests import SOON, body, newest, part, versions

ELECT, MOVE = ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS
MOVES, DIRS = ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.ALTER_REPLICA_LOG_DIRS
PREFERRED, UNCLEAN = 0, 1
Codes = dict[tuple[str, int], ErrorCode]


@pytest.fixture(autouse=True)
def topics(running: RunningGateway) -> None:
    """Topics a with 2 partitions, b with 1."""
    running.server.gateway.admin.create_topics([NewTopic("a", 2), NewTopic("b", 1)])


def elect(
    client: Client,
    *asked: tuple[str, Sequence[int]],
    version: int = newest(ELECT),
    kind: int = PREFERRED,
    is_all: bool = False,
) -> Any:
    """The answer to a request for elections of these partitions, or of all."""
    wanted = [
        part(ELECT, version, "TopicPartitions", topic=name, partitions=tuple(numbers))
        for name, numbers in asked
    ]
    named = None if is_all else tuple(wanted)
    fields = {"election_type": kind, "topic_partitions": named, "timeout": SOON}
    return client.ask(body(ELECT, version, **fields))


def elected(answer: Any) -> Codes:
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


class TestElectLeaders:
    @pytest.mark.parametrize("version", versions(ELECT))
    @pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
    def test_none_is_needed(self, client: Client, version: int, kind: int) -> None:
        answer = elect(client, ("a", [0, 1, 2]), ("nowhere", [0]), version=version, kind=kind)
        assert elected(answer) == {
            ("a", 0): ErrorCode.election_not_needed,
            ("a", 1): ErrorCode.election_not_needed,
            ("a", 2): ErrorCode.unknown_topic_or_partition,
            ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
        }
        assert getattr(answer, "error_code", ErrorCode.none) == ErrorCode.none

    def test_of_all_partitions_those_that_need_one_are_told(self, client: Client) -> None:
        answer = elect(client, is_all=True)
        assert [one.topic for one in answer.replica_election_results] == ["a", "b"]
        assert elected(answer) == {}

    def test_there_are_two_kinds(self, client: Client) -> None:
        answer = elect(client, ("b", [0]), kind=2)
        assert answer.error_code == ErrorCode.invalid_request
        assert elected(answer) == {("b", 0): ErrorCode.invalid_request}
        assert elect(client, kind=2, is_all=True).error_code == ErrorCode.invalid_request


def move(
    client: Client,
    *asked: tuple[str, int, Sequence[int] | None],
    version: int = newest(MOVE),
    may_change_count: bool = True,
) -> Any:
    """The answer to reassignments; None for the replicas cancels one."""
    wanted = [
        part(
            MOVE,
            version,
            "ReassignableTopic",
            name=name,
            partitions=(
                part(
                    MOVE,
                    version,
                    "ReassignablePartition",
                    partition_index=number,
                    replicas=None if replicas is None else tuple(replicas),
                ),
            ),
        )
        for name, number, replicas in asked
    ]
    fields = {"timeout": SOON, "topics": tuple(wanted)}
    fields |= {"allow_replication_factor_change": may_change_count}
    return client.ask(body(MOVE, version, **fields))


def moved(answer: Any) -> list[ErrorCode]:
    return [one.error_code for topic in answer.responses for one in topic.partitions]


class TestReassignments:
    @pytest.mark.parametrize("version", versions(MOVE))
    def test_a_partition_may_go_to_where_it_is(self, client: Client, version: int) -> None:
        answer = move(client, ("a", 0, [0]), ("a", 1, None), ("a", 2, [0]), version=version)
        assert answer.error_code == ErrorCode.none
        assert moved(answer) == [
            ErrorCode.none,
            ErrorCode.no_reassignment_in_progress,
            ErrorCode.unknown_topic_or_partition,
        ]

    def test_a_partition_that_is_unknown_is_told_first(self, client: Client) -> None:
        answer = move(client, ("nowhere", 0, None), ("nowhere", 0, [9]))
        assert moved(answer) == [ErrorCode.unknown_topic_or_partition] * 2

    @pytest.mark.parametrize("replicas", [(), (9,), (0, 9), (0, 0)])
    def test_replicas_are_different_brokers_that_exist(
        self, client: Client, replicas: Sequence[int]
    ) -> None:
        answer = move(client, ("a", 0, replicas), may_change_count=False)
        assert moved(answer) == [ErrorCode.invalid_replica_assignment]

    def test_none_is_ever_under_way(self, client: Client) -> None:
        move(client, ("a", 0, [0]))
        some = part(MOVES, 0, "ListPartitionReassignmentsTopics", name="a", partition_indexes=(0,))
        for wanted in (None, (some,)):
            found = moves(client, wanted)
            assert (found.error_code, found.topics) == (ErrorCode.none, ())


def moves(client: Client, wanted: Sequence[Any] | None = None) -> Any:
    return client.ask(body(MOVES, 0, topics=wanted, timeout=SOON))


def put(
    client: Client, *asked: tuple[str, str, Sequence[int]], version: int = newest(DIRS)
) -> Codes:
    """The codes for partitions of topics that are to be in log dirs."""
    wanted = [
        part(
            DIRS,
            version,
            "AlterReplicaLogDir",
            path=path,
            topics=(
                part(
                    DIRS, version, "AlterReplicaLogDirTopic", name=name, partitions=tuple(numbers)
                ),
            ),
        )
        for path, name, numbers in asked
    ]
    answer = client.ask(body(DIRS, version, dirs=tuple(wanted)))
    return {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.results
        for one in topic.partitions
    }


class TestLogDirs:
    @pytest.mark.parametrize("version", versions(DIRS))
    def test_a_replica_may_go_to_the_log_dir(
        self, running: RunningGateway, client: Client, version: int
    ) -> None:
        log_dir = running.server.gateway.settings.log_dir
        asked = [(log_dir, "a", [0, 2]), ("/elsewhere", "a", [1]), (log_dir, "nowhere", [0])]
        assert put(client, *asked, version=version) == {
            ("a", 0): ErrorCode.none,
            ("a", 1): ErrorCode.log_dir_not_found,
            ("a", 2): ErrorCode.unknown_topic_or_partition,
            ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
        }

    def test_the_last_of_two_log_dirs_counts(self, running: RunningGateway, client: Client) -> None:
        log_dir = running.server.gateway.settings.log_dir
        assert put(client, ("/elsewhere", "b", [0]), (log_dir, "b", [0])) == {
            ("b", 0): ErrorCode.none
        }
        assert put(client, (log_dir, "b", [0]), ("/nowhere", "nowhere", [0])) == {
            ("b", 0): ErrorCode.none,
            ("nowhere", 0): ErrorCode.log_dir_not_found,
        }


class TestTwoInstances:
    @pytest.fixture
    def second(self, running: RunningGateway) -> Iterator[RunningGateway]:
        with gateway(running.server.gateway.settings.log_dir, node_id=1) as found:
            yield found

    def test_the_instance_that_leads_has_the_replica(
        self, running: RunningGateway, second: RunningGateway, client: Client, tmp_path: Path
    ) -> None:
        names = [f"topic-{number}" for number in range(20)]
        made = running.server.gateway.admin.create_topics([NewTopic(name, 1) for name in names])
        put(client)  # the first instance sees the topics and the second instance
        alive = second.server.gateway.instances.alive
        leaders = {one.name: leader_of(one.topic_id, alive).node_id for one in made}
        assert set(leaders.values()) == {0, 1}
        for name, leader in leaders.items():
            other = 1 - leader
            answer = move(client, (name, 0, [leader]), (name, 0, [other]), (name, 0, [0, 1]))
            refused = ErrorCode.invalid_replica_assignment
            assert moved(answer) == [ErrorCode.none, refused, refused]
            answer = move(client, (name, 0, [0, 1]), (name, 0, [other]), may_change_count=False)
            assert moved(answer) == [ErrorCode.invalid_replication_factor, refused]
            expected = ErrorCode.none if leader == 0 else ErrorCode.replica_not_available
            assert put(client, (str(tmp_path / "log"), name, [0])) == {(name, 0): expected}
