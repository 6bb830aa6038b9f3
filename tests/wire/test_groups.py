"""Consumer groups, asked by every version of every API: members, administration, coordinators."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.clock import SystemClock
from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC, Record
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import NotCoordinatorError, StorageError
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.model import TopicPartition
from sparklog.wire.handlers.operations import NO_OPERATIONS, Operation
from sparklog.wire.instances import instance_of
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import client_batch
from tests.failing import failing_later
from tests.wire.gateways import Client, RunningGateway, gateway, request
from tests.wire.grouping import QUICK, GroupMember, alone
from tests.wire.requests import body
from tests.wire.test_produce import answers, produce_request


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway whose groups do not wait for members, with a topic of two partitions."""
    with gateway(tmp_path / "log", **QUICK) as found:
        found.server.gateway.admin.create_topics([NewTopic("flights", 2)])
        yield found


class TestAMember:
    @pytest.mark.parametrize("version", range(10))
    def test_joins_in_every_version(self, client: Client, version: int) -> None:
        member = GroupMember(client, join_group=version)
        answer = member.join(b"subscription")
        assert answer.error_code is ErrorCode.none
        assert answer.leader == answer.member_id
        assert [bytes(one.metadata) for one in answer.members] == [b"subscription"]

    @pytest.mark.parametrize("version", range(6))
    def test_is_given_what_its_leader_assigns(self, client: Client, version: int) -> None:
        member = GroupMember(client, sync_group=version)
        member.join()
        answer = member.sync({member.member_id: b"all"})
        assert (answer.error_code, bytes(answer.assignment)) == (ErrorCode.none, b"all")

    @pytest.mark.parametrize("version", range(5))
    def test_heartbeats(self, client: Client, version: int) -> None:
        assert alone(client, heartbeat=version).heartbeat() is ErrorCode.none

    @pytest.mark.parametrize("version", range(6))
    def test_leaves(self, client: Client, version: int) -> None:
        member = alone(client, leave_group=version)
        assert set(member.leave()) == {ErrorCode.none}
        assert member.heartbeat() is ErrorCode.unknown_member_id

    def test_that_is_unknown_is_told_so(self, client: Client) -> None:
        stranger = GroupMember(client, heartbeat=4)
        stranger.member_id = "nobody"
        assert stranger.heartbeat() is ErrorCode.unknown_member_id
        assert stranger.sync().error_code is ErrorCode.unknown_member_id
        assert stranger.leave() == [ErrorCode.none, ErrorCode.unknown_member_id]


def test_two_members_share_a_group(running: RunningGateway, client: Client) -> None:
    first = alone(client)
    with Client(running.port) as other:
        second = GroupMember(other)
        told = other.ask(second.join_request())
        second.member_id = told.member_id
        other.send(second.join_request())
        list(iter(first.heartbeat, ErrorCode.rebalance_in_progress))
        answer = first.join()
        joined = other.receive(ApiKey.JOIN_GROUP, 9)
        second.generation = joined.generation_id
        assert answer.generation_id == joined.generation_id == 2
        assert {one.member_id for one in answer.members} == {first.member_id, second.member_id}
        assert not joined.members
        first.sync({first.member_id: b"0", second.member_id: b"1"})
        assert bytes(second.sync().assignment) == b"1"


class TestAdministration:
    @pytest.mark.parametrize("version", range(7))
    def test_the_coordinator_is_the_instance(
        self, running: RunningGateway, client: Client, version: int
    ) -> None:
        fields: dict[str, Any] = {"key": "readers"} | ({"key_type": 0} if version else {})
        if version >= 4:
            fields = {"coordinator_keys": ("readers", "writers"), "key_type": 0}
        answer = client.ask(request(ApiKey.FIND_COORDINATOR, version, **fields))
        found = answer.coordinators if version >= 4 else [answer]
        assert {(one.error_code, one.port) for one in found} == {(ErrorCode.none, running.port)}

    def test_there_is_no_other_kind_of_coordinator(self, client: Client) -> None:
        asked = request(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("mine",), key_type=2)
        (found,) = client.ask(asked).coordinators
        assert found.error_code is ErrorCode.invalid_request

    @pytest.mark.parametrize("version", range(7))
    def test_a_group_is_described(self, client: Client, version: int) -> None:
        member = alone(client)
        group = described(client, version, "readers")
        (told,) = group.members
        assert (group.group_state, group.protocol_type, group.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        assert (told.member_id, told.client_id, told.client_host) == (
            member.member_id,
            "test",
            "/127.0.0.1",
        )
        assert bytes(told.member_assignment) == b"everything"

    def test_the_clients_operations_are_told_if_it_asks(self, client: Client) -> None:
        alone(client)
        bits = 1 << Operation.READ | 1 << Operation.DESCRIBE | 1 << Operation.DELETE
        asked = [described(client, 6, one, operations=True) for one in ("readers", "nobody")]
        assert [one.authorized_operations for one in asked] == [bits, NO_OPERATIONS]
        assert described(client, 6, "readers").authorized_operations == NO_OPERATIONS

    @pytest.mark.parametrize(
        ("version", "code"), [(5, ErrorCode.none), (6, ErrorCode.group_id_not_found)]
    )
    def test_a_group_that_is_not_there_is_dead(
        self, client: Client, version: int, code: ErrorCode
    ) -> None:
        group = described(client, version, "nobody")
        assert (group.group_state, group.error_code) == ("Dead", code)

    @pytest.mark.parametrize("version", range(6))
    def test_groups_are_listed(self, client: Client, version: int) -> None:
        alone(client)
        groups = client.ask(list_request(version)).groups
        assert [(one.group_id, one.protocol_type) for one in groups] == [("readers", "consumer")]

    @pytest.mark.parametrize(
        ("state", "kind", "count"),
        [("stable", "Classic", 1), ("empty", "classic", 0), ("stable", "consumer", 0)],
    )
    def test_groups_are_listed_by_state_and_type(
        self, client: Client, state: str, kind: str, count: int
    ) -> None:
        alone(client)
        assert len(client.ask(list_request(5, state, kind)).groups) == count

    def test_before_the_first_group_there_is_none(self, client: Client) -> None:
        assert client.ask(list_request(5)).groups == ()

    @pytest.mark.parametrize("version", range(3))
    def test_an_empty_group_is_deleted(self, client: Client, version: int) -> None:
        member = alone(client)
        asked = request(ApiKey.DELETE_GROUPS, version, groups_names=("readers", "nobody"))
        codes = [one.error_code for one in client.ask(asked).results]
        assert codes == [ErrorCode.non_empty_group, ErrorCode.group_id_not_found]
        member.leave()
        codes = [one.error_code for one in client.ask(asked).results]
        assert codes == [ErrorCode.none, ErrorCode.group_id_not_found]


def list_request(version: int, *filters: str) -> Any:
    """A ListGroups request of a state and a type."""
    state, kind = filters or (None, None)
    return body(
        ApiKey.LIST_GROUPS,
        version,
        states_filter=(state,) if state else (),
        types_filter=(kind,) if kind else (),
    )


def described(client: Client, version: int, group: str, *, operations: bool = False) -> Any:
    """What DescribeGroups tells of a group."""
    asked = body(
        ApiKey.DESCRIBE_GROUPS, version, groups=(group,), include_authorized_operations=operations
    )
    return client.ask(asked).groups[0]


class TestTheOffsetsTopic:
    def test_has_kafkas_name_and_is_made_on_first_use(
        self, running: RunningGateway, client: Client
    ) -> None:
        admin = running.server.gateway.admin
        assert OFFSETS_TOPIC == "__consumer_offsets"
        assert OFFSETS_TOPIC not in admin.list_topics()
        alone(client)
        [topic] = admin.describe_topics([OFFSETS_TOPIC])
        assert (topic.num_partitions, topic.configs["cleanup.policy"]) == (4, "compact")

    def test_takes_no_records_of_clients(self, client: Client) -> None:
        alone(client)
        batch = client_batch("a", keys=[b"k"])
        asked = produce_request(9, OFFSETS_TOPIC, (0, batch))
        assert answers(client.ask(asked)) == [(0, ErrorCode.invalid_topic_exception, -1)]


class TestAnotherGateway:
    def test_goes_on_where_the_first_was(self, tmp_path: Path) -> None:
        with gateway(tmp_path / "log", **QUICK) as first:
            first.server.gateway.admin.create_topics([NewTopic("flights", 2)])
            with Client(first.port) as client:
                member = alone(client)
                member.commit({("flights", 1): 7})
        with gateway(tmp_path / "log", **QUICK) as second, Client(second.port) as client:
            member.client = client
            assert member.heartbeat() is ErrorCode.none
            assert member.committed() == {("flights", 1): 7}
            assert bytes(member.sync().assignment) == b"everything"
            assert member.commit({("flights", 1): 8}) == [ErrorCode.none]

    def test_takes_a_group_over_and_the_first_one_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with (
            gateway(tmp_path / "log", **QUICK) as first,
            gateway(tmp_path / "log", **QUICK) as second,
            Client(first.port) as client,
            Client(second.port) as other,
        ):
            for one in (first, second):
                believes_to_own_all(one, monkeypatch)
            first.server.gateway.admin.create_topics([NewTopic("flights", 2)])
            member = alone(client)
            member.commit({("flights", 1): 7})
            member.client = other
            assert member.commit({("flights", 1): 8}) == [ErrorCode.none]
            member.client = client
            assert member.heartbeat() is ErrorCode.not_coordinator
            assert member.commit({("flights", 1): 9}) == [ErrorCode.not_coordinator]
            member.client = other
            assert member.committed() == {("flights", 1): 8}

    def test_is_named_to_clients_and_asked_alone(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        member = alone(client)
        other = instance_of(Broker(7, "", (Endpoint("PLAINTEXT", "elsewhere", 9092),)))
        coordinators = running.server.gateway.coordinators
        monkeypatch.setattr(coordinators, "_owner", lambda _: other)
        assert member.heartbeat() is ErrorCode.not_coordinator
        assert member.join().error_code is ErrorCode.not_coordinator
        assert member.sync().error_code is ErrorCode.not_coordinator
        assert member.leave() == [ErrorCode.not_coordinator]
        assert member.commit({("flights", 0): 1}) == [ErrorCode.not_coordinator]
        assert described(client, 6, "readers").error_code is ErrorCode.not_coordinator
        assert client.ask(list_request(5)).groups == ()
        asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("readers",), key_type=0)
        (found,) = client.ask(asked).coordinators
        assert (found.node_id, found.host, found.port) == other[:3]


def believes_to_own_all(one: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance whose view of who lives is not the others'."""
    running = one.server.gateway
    monkeypatch.setattr(running.coordinators, "_owner", lambda _: running.instances.own)


class TestFailures:
    def test_a_claim_that_another_instance_was_before_with(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.wire.groups.coordinators.claim", lambda *_: None)
        assert GroupMember(client).join().error_code is ErrorCode.not_coordinator

    def test_a_storage_that_fails_is_no_last_word(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as broken:
            broken.setattr("sparklog.wire.groups.coordinators.claim", fail)
            answer = GroupMember(client).join()
            assert answer.error_code is ErrorCode.coordinator_not_available
        assert alone(client).heartbeat() is ErrorCode.none

    def test_a_partition_that_cannot_be_read_is_not_claimed_and_the_log_says_why(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("sparklog.wire.groups.coordinators.load", fail)
        monkeypatch.setattr(
            "sparklog.wire.groups.coordinators.claim", lambda *_: pytest.fail("claimed")
        )
        for _ in range(2):
            assert GroupMember(client).join().error_code is ErrorCode.coordinator_not_available
        told = [one for one in caplog.messages if "was not taken over: the disk is gone" in one]
        assert len(told) == 1

    def test_the_log_says_why_a_partition_is_read_again(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        member = alone(client)
        monkeypatch.setattr("sparklog.group_commit.append_writer.AppendWriter.write", fail)
        assert member.commit({("flights", 0): 3}) == [ErrorCode.coordinator_not_available]
        assert "has to be read again: the disk is gone" in caplog.text

    def test_a_topic_that_cannot_be_made(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.wire.gateway.offsets_topic", fail)
        asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("readers",), key_type=0)
        (found,) = client.ask(asked).coordinators
        assert found.error_code is ErrorCode.coordinator_not_available

    def test_groups_that_cannot_be_read_are_not_listed(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alone(client)
        monkeypatch.setattr("sparklog.wire.groups.coordinators.live_topic", fail)
        assert client.ask(list_request(5)).error_code is ErrorCode.coordinator_not_available

    def test_groups_that_another_instance_has_claimed_are_its_own(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alone(client)
        monkeypatch.setattr(
            running.server.gateway.coordinators,
            "_owned",
            failing_later(NotCoordinatorError, "claimed"),
        )
        answer = client.ask(list_request(5))
        assert (answer.error_code, answer.groups) == (ErrorCode.none, ())

    def test_records_of_others_are_read_before_the_next_answer(
        self, running: RunningGateway, client: Client
    ) -> None:
        member = alone(client)
        member.commit({("flights", 0): 3})
        place = TopicPartition("flights", 0)
        offset = CommittedOffset(9, committed_ms=SystemClock().now_ms())
        append_as_another(running, offset_record("readers", place, offset))
        assert member.committed() == {("flights", 0): 9}
        assert member.heartbeat() is ErrorCode.none

    def test_a_topic_that_was_deleted_is_made_again(
        self, running: RunningGateway, client: Client
    ) -> None:
        member = alone(client)
        running.server.gateway.admin.delete_topics([OFFSETS_TOPIC])
        assert member.heartbeat() is ErrorCode.unknown_member_id
        assert alone(client).heartbeat() is ErrorCode.none

    def test_two_who_ask_first_wait_for_one_claim(
        self, running: RunningGateway, client: Client
    ) -> None:
        with Client(running.port) as other:
            asked = GroupMember(client).join_request()
            client.send(asked)
            other.send(asked)
            for one in (client, other):
                code = one.receive(ApiKey.JOIN_GROUP, 9).error_code
                assert code is ErrorCode.member_id_required


class TestAGatewayThatEnds:
    def test_claims_nothing(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "sparklog.wire.groups.coordinators.claim", lambda *_: pytest.fail("claimed")
        )
        running.server.gateway.coordinators.close()
        assert GroupMember(client).join().error_code is ErrorCode.not_coordinator

    def test_gives_up_a_claim_that_is_under_way(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        coordinators = running.server.gateway.coordinators

        def claimed(*_: object) -> int:
            coordinators.close()
            return 1

        monkeypatch.setattr("sparklog.wire.groups.coordinators.claim", claimed)
        assert GroupMember(client).join().error_code is ErrorCode.not_coordinator


def fail(*_: object) -> None:
    raise StorageError("the disk is gone")


def append_as_another(running: RunningGateway, record: Record) -> None:
    """Append a record to the group's partition, as others than its owner do."""
    found = running.server.gateway

    async def appended() -> None:
        topic = (await found.image()).names[OFFSETS_TOPIC]
        partition = partition_of("readers", topic.num_partitions)
        batch = batch_of([record], found.clock.now_ms())
        [outcome] = await found.appends.append([Slot(Append(topic.topic_id, partition, batch))])
        assert isinstance(outcome, Appended)

    running.run(appended())
