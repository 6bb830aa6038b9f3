"""Groups of the consumer protocol (KIP-848), by confluent-kafka and request by request."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from sparklog.admin import NewTopic
from sparklog.tokens import Grant, Resource, Scope
from sparklog.wire.handlers.groups import consumer_groups
from sparklog.wire.handlers.groups.group_members import ask_coordinator
from sparklog.wire.handlers.operations import NO_OPERATIONS, Operation
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.gateways import (
    Client,
    RunningGateway,
    check_others_are_answered,
    gateway,
    grant_only,
)
from tests.wire.grouping import alone
from tests.wire.requests import body, part
from tests.wire.test_confluent_groups import COUNT, produce, read, shares

QUICK = {"group_consumer_heartbeat_interval_ms": 50, "offsets_topic_num_partitions": 4}
HEARTBEAT, DESCRIBE = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE
NEVER = i32Timedelta.parse(timedelta(milliseconds=-1))
MINUTE = i32Timedelta.parse(timedelta(minutes=1))
JOIN: dict[str, Any] = {
    "group_id": "readers",
    "member_id": "ada",
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout": MINUTE,
    "subscribed_topic_names": ("flights",),
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": (),
}
GRANT = Grant(prefix="", scopes=frozenset({Scope.READ}), resource=Resource.GROUP)
SAME = {**JOIN, "rebalance_timeout": NEVER, "subscribed_topic_names": None}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway with a topic of four partitions."""
    with gateway(tmp_path / "log", **QUICK) as found:
        found.server.gateway.admin.create_topics([NewTopic("flights", 4)])
        yield found


def consumer(running: RunningGateway, **configs: object) -> Consumer:
    """A consumer of librdkafka in the consumer protocol."""
    given = {
        "bootstrap.servers": running.address,
        "group.id": "readers",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **configs,
    }
    found = Consumer(given)
    found.subscribe(["flights"])
    return found


class TestConfluent:
    def test_one_that_comes_again_goes_on_behind_what_it_committed(
        self, running: RunningGateway
    ) -> None:
        produce(running, 0, COUNT)
        first = consumer(running)
        assert read(first, COUNT) == list(range(COUNT))
        first.commit(asynchronous=False)
        places = first.committed([TopicPartition("flights", one) for one in range(4)], 30)
        assert [one.offset for one in places] == [COUNT // 4] * 4
        first.close()
        produce(running, COUNT, COUNT + 8)
        second = consumer(running)
        assert read(second, 8) == list(range(COUNT, COUNT + 8))
        second.close()

    @pytest.mark.parametrize("assignor", ["uniform", "range"])
    def test_two_share_the_partitions(self, running: RunningGateway, assignor: str) -> None:
        first, second = (consumer(running, **{"group.remote.assignor": assignor}) for _ in "12")
        assert shares(first, second) == [2, 2]
        second.close()
        assert shares(first) == [4]
        first.close()

    def test_a_static_one_has_its_partitions_again(self, running: RunningGateway) -> None:
        first, second = (consumer(running, **{"group.instance.id": one}) for one in "12")
        shares(first, second)
        held = sorted(one.partition for one in second.assignment())
        second.close()
        again = consumer(running, **{"group.instance.id": "2"})
        assert shares(first, again) == [2, 2]
        assert sorted(one.partition for one in again.assignment()) == held
        for one in (first, again):
            one.close()

    def test_an_admin_client_lists_the_group(self, running: RunningGateway) -> None:
        member = consumer(running)
        shares(member)
        admin = AdminClient({"bootstrap.servers": running.address})
        (listed,) = admin.list_consumer_groups().result(30).valid
        assert (listed.group_id, listed.type) == ("readers", ConsumerGroupType.CONSUMER)
        member.close()

    def test_another_gateway_goes_on_with_the_group(self, tmp_path: Path) -> None:
        for start in (0, COUNT):
            with gateway(tmp_path / "log", **QUICK) as running:
                if not start:
                    running.server.gateway.admin.create_topics([NewTopic("flights", 4)])
                produce(running, start, start + COUNT)
                member = consumer(running)
                assert read(member, COUNT) == list(range(start, start + COUNT))
                member.commit(asynchronous=False)
                member.close()


def beats(client: Client, version: int = 1, **fields: Any) -> Any:
    """The answer to ConsumerGroupHeartbeat: of a member that joins unless told."""
    return client.ask(body(HEARTBEAT, version, **{**JOIN, **fields}))


def described(
    client: Client, version: int = 1, group: str = "readers", *, operations: bool = False
) -> Any:
    fields = {"group_ids": (group,), "include_authorized_operations": operations}
    return client.ask(body(DESCRIBE, version, **fields)).groups[0]


def held(running: RunningGateway) -> dict[Any, list[int]]:
    """The partitions of the topic, as an assignment has them."""
    topic = running.run(running.server.gateway.image()).names["flights"]
    return {uuid_of(topic.topic_id): [0, 1, 2, 3]}


class TestHeartbeat:
    def test_may_name_a_topic_without_an_id(self, client: Client) -> None:
        owned = (part(HEARTBEAT, 1, "TopicPartitions", topic_id=None, partitions=(0,)),)
        epoch = beats(client).member_epoch
        answer = beats(client, member_epoch=epoch, topic_partitions=owned)
        assert answer.error_code == ErrorCode.none

    @pytest.mark.parametrize("version", [0, 1])
    def test_a_member_is_given_partitions(
        self, running: RunningGateway, client: Client, version: int
    ) -> None:
        answer = beats(client, version)
        assert (answer.error_code, answer.member_id) == (ErrorCode.none, "ada")
        assert (answer.member_epoch, answer.heartbeat_interval) == (1, timedelta(milliseconds=50))
        (topic,) = answer.assignment.topic_partitions
        assert {topic.topic_id: list(topic.partitions)} == held(running)

    def test_says_what_it_has(self, running: RunningGateway, client: Client) -> None:
        (topic,) = beats(client).assignment.topic_partitions
        fields = {"topic_id": topic.topic_id, "partitions": topic.partitions}
        owned = (part(HEARTBEAT, 1, "TopicPartitions", **fields),)
        answer = beats(client, **{**SAME, "member_epoch": 1, "topic_partitions": owned})
        assert (answer.error_code, answer.assignment) == (ErrorCode.none, None)
        answer = beats(client, **{**SAME, "member_epoch": 1, "topic_partitions": None})
        assert answer.error_code is ErrorCode.none

    def test_an_old_client_is_given_an_id(self, client: Client) -> None:
        assert beats(client, 0, member_id="").member_id

    def test_a_newer_one_brings_it(self, client: Client) -> None:
        answer = beats(client, member_id="")
        assert answer.error_code is ErrorCode.invalid_request
        assert answer.error_message == "MemberId can't be empty."

    def test_a_regular_expression_reads_what_matches(
        self, running: RunningGateway, client: Client
    ) -> None:
        answer = beats(client, subscribed_topic_names=None, subscribed_topic_regex="fl.*")
        (topic,) = answer.assignment.topic_partitions
        assert {topic.topic_id: list(topic.partitions)} == held(running)

    def test_a_topic_that_may_not_be_seen_is_refused(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grant_only(monkeypatch, GRANT)
        with Client(client.socket.getpeername()[1]) as alice:
            assert beats(alice).error_code is ErrorCode.topic_authorization_failed
            answer = beats(alice, subscribed_topic_names=None, subscribed_topic_regex=".*")
            assert (answer.error_code, answer.assignment.topic_partitions) == (ErrorCode.none, ())


def test_a_heartbeat_brings_the_topics_that_there_are_when_it_is_read(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long one may wait to be read: with the topics of before it would undo an assignment."""
    owned, brought = consumer_groups._owned, list[str]()

    def reading(*given: Any) -> Any:
        running.server.gateway.admin.create_topics([NewTopic("new", 1)])
        return owned(*given)

    async def asking(call: Any, heartbeat: Any, group_id: str) -> Any:
        brought.extend(heartbeat.topics)
        return await ask_coordinator(call, heartbeat, group_id)

    monkeypatch.setattr(consumer_groups, "_owned", reading)
    monkeypatch.setattr(consumer_groups, "ask_coordinator", asking)
    client.ask(body(HEARTBEAT, 1, **JOIN))

    assert "new" in brought


class TestDescribe:
    @pytest.mark.parametrize("version", [0, 1])
    def test_a_group_is_told_with_its_members(
        self, running: RunningGateway, client: Client, version: int
    ) -> None:
        beats(client, rack_id="r1", server_assignor="range")
        found = described(client, version)
        assert (found.error_code, found.group_state) == (ErrorCode.none, "Stable")
        assert (found.group_epoch, found.assignment_epoch) == (1, 1)
        (member,) = found.members
        assert (found.assignor_name, member.rack_id, member.client_id) == ("range", "r1", "test")
        assert (member.member_epoch, member.client_host) == (1, "/127.0.0.1")
        assert member.subscribed_topic_names == ("flights",)
        for given in (member.assignment, member.target_assignment):
            (topic,) = given.topic_partitions
            assert topic.topic_name == "flights"
            assert {topic.topic_id: list(topic.partitions)} == held(running)

    def test_does_not_keep_other_clients_waiting(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        beats(client)
        slow = import_module("sparklog.wire.handlers.groups.consumer_groups"), "_member"
        fields = {"group_ids": ("readers",), "include_authorized_operations": False}
        asked = body(DESCRIBE, 1, **fields)
        check_others_are_answered(running, monkeypatch, slow, lambda: client.send(asked))
        assert client.receive(DESCRIBE, 1).groups[0].members

    def test_the_clients_operations_are_told_if_it_asks(self, client: Client) -> None:
        beats(client)
        told = [described(client, operations=one).authorized_operations for one in (True, False)]
        bits = 1 << Operation.READ | 1 << Operation.DESCRIBE | 1 << Operation.DELETE
        assert told == [bits, NO_OPERATIONS]

    def test_a_group_with_topics_that_the_client_may_not_see_is_refused(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        beats(client)
        grant_only(monkeypatch, GRANT)
        with Client(client.socket.getpeername()[1]) as alice:
            found = described(alice)
        assert (found.error_code, found.members) == (ErrorCode.topic_authorization_failed, ())
        assert found.error_message == "the group reads topics that the client may not see"

    def test_partitions_of_topics_that_are_gone_are_not_told(
        self, running: RunningGateway, client: Client
    ) -> None:
        beats(client)
        running.server.gateway.admin.delete_topics(["flights"])
        (member,) = described(client).members
        assert member.assignment.topic_partitions == ()

    def test_one_that_is_not_there_is_not_found(self, client: Client) -> None:
        found = described(client, group="nobody")
        assert found.error_code is ErrorCode.group_id_not_found
        assert found.error_message == "Group nobody not found."

    def test_a_classic_one_is_none(self, client: Client) -> None:
        alone(client)
        assert described(client).error_message == "Group readers is not a consumer group."

    def test_it_is_no_classic_one(self, client: Client) -> None:
        beats(client)
        fields = {"groups": ("readers",), "include_authorized_operations": False}
        (found,) = client.ask(body(ApiKey.DESCRIBE_GROUPS, 6, **fields)).groups
        assert found.error_code is ErrorCode.group_id_not_found
        assert found.error_message == "Group readers is not a classic group."

    def test_one_whose_coordinator_fails_has_its_code(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        coordinators = running.server.gateway.coordinators
        monkeypatch.setattr(coordinators, "_owns", lambda _: False)
        assert described(client).error_code is ErrorCode.not_coordinator
        assert beats(client).error_code is ErrorCode.not_coordinator


def test_a_member_fetches_offsets_in_its_epoch(client: Client) -> None:
    beats(client)
    codes = []
    for epoch in (1, 2):
        fields = {"group_id": "readers", "member_id": "ada", "member_epoch": epoch, "topics": None}
        group = part(ApiKey.OFFSET_FETCH, 9, "OffsetFetchRequestGroup", **fields)
        asked = body(ApiKey.OFFSET_FETCH, 9, groups=(group,), require_stable=False)
        codes.append(client.ask(asked).groups[0].error_code)
    assert codes == [ErrorCode.none, ErrorCode.stale_member_epoch]
