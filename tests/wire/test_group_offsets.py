"""Committed offsets of groups, in every version: committed, fetched, deleted, refused."""

import struct
from collections.abc import Iterator
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from threading import Event
from time import sleep
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AlterConfigOp, NewTopic
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommitAnswer, CommittedOffset
from sparklog.model import TopicPartition
from sparklog.tokens import Grant, Resource, Scope
from sparklog.wire.protocol.versions import ApiKey
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, gateway, grant_only
from tests.wire.grouping import QUICK, GroupMember, alone
from tests.wire.requests import body, part
from tests.wire.test_groups import append_as_another
from tests.wire.test_metadata import topics_asked


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway whose groups do not wait for members, with a topic of two partitions."""
    with gateway(tmp_path / "log", **QUICK) as found:
        found.server.gateway.admin.create_topics([NewTopic("flights", 2)])
        yield found


class TestOffsets:
    @pytest.mark.parametrize("version", range(2, 10))
    def test_are_committed_in_every_version(self, client: Client, version: int) -> None:
        member = alone(client, offset_commit=version)
        assert member.commit({("flights", 1): 7}) == [ErrorCode.none]
        assert member.committed(("flights", 0), ("flights", 1)) == {
            ("flights", 0): -1,
            ("flights", 1): 7,
        }

    @pytest.mark.parametrize("version", range(1, 10))
    def test_are_fetched_in_every_version(self, client: Client, version: int) -> None:
        member = alone(client, offset_fetch=version)
        member.commit({("flights", 1): 7})
        assert member.committed(("flights", 1)) == {("flights", 1): 7}

    @pytest.mark.parametrize("version", range(2, 10))
    def test_of_all_partitions(self, client: Client, version: int) -> None:
        member = alone(client, offset_fetch=version)
        member.commit({("flights", 1): 7, ("flights", 0): 3})
        assert member.committed() == {("flights", 0): 3, ("flights", 1): 7}

    def test_count_as_records(self, running: RunningGateway, client: Client) -> None:
        """As in Kafka's MessagesInPerSec: its coordinator appends as producers do."""
        member, counts = alone(client), running.server.gateway.appends.counts
        before = counts.records
        member.commit({("flights", 1): 7, ("flights", 0): 3})
        assert counts.records == before + 2

    def test_of_a_group_that_is_not_there_are_none(self, client: Client) -> None:
        member = GroupMember(client, "nobody")
        assert member.committed(("flights", 0)) == {("flights", 0): -1}

    def test_of_a_topic_without_partitions_name_it(self, client: Client) -> None:
        api, fields = ApiKey.OFFSET_FETCH, {"name": "flights", "partition_indexes": ()}
        topics = (part(api, 8, "OffsetFetchRequestTopics", **fields),)
        group = part(api, 8, "OffsetFetchRequestGroup", group_id="readers", topics=topics)
        asked = body(api, 8, groups=(group,), require_stable=False)
        found = client.ask(asked).groups[0].topics
        assert [(one.name, one.partitions) for one in found] == [("flights", ())]

    def test_of_a_topic_that_is_not_there_are_refused(self, client: Client) -> None:
        codes = alone(client).commit({("nowhere", 0): 1, ("flights", 9): 1, ("flights", 0): 1})
        unknown = ErrorCode.unknown_topic_or_partition
        assert codes == [unknown, unknown, ErrorCode.none]

    def test_of_a_topic_that_was_deleted_are_refused(
        self, running: RunningGateway, client: Client
    ) -> None:
        member, admin = alone(client), running.server.gateway.admin
        assert member.commit({("flights", 0): 1}) == [ErrorCode.none]
        admin.delete_topics(["flights"])
        assert member.commit({("flights", 0): 2}) == [ErrorCode.unknown_topic_or_partition]
        admin.create_topics([NewTopic("flights", 1)])
        assert member.commit({("flights", 0): 3}) == [ErrorCode.none]

    def test_of_a_topic_that_was_deleted_are_not_fetched(
        self, running: RunningGateway, client: Client
    ) -> None:
        """Kafka's tools ask for the end of each log whose offset they get."""
        member, admin = alone(client), running.server.gateway.admin
        admin.create_topics([NewTopic("kept")])
        both = {("flights", 1): 7, ("kept", 0): 3}
        member.commit(both)
        admin.delete_topics(["flights"])
        assert member.committed() == {("kept", 0): 3}
        assert member.committed(("flights", 1)) == {("flights", 1): -1}
        admin.undelete_topic("flights")
        assert member.committed() == both

    def test_of_an_older_generation_are_refused(self, client: Client) -> None:
        member = alone(client)
        member.generation -= 1
        assert member.commit({("flights", 0): 1}) == [ErrorCode.illegal_generation]

    def test_are_committed_before_there_is_a_topic_for_them(self, client: Client) -> None:
        topics = client.ask(topics_asked(12, "flights")).topics
        assert [one.name for one in topics] == ["flights"]
        assert GroupMember(client, "simple").commit({("flights", 1): 7}) == [ErrorCode.none]

    def test_are_committed_for_a_client_that_has_gone(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        member, appends = alone(client), running.server.gateway.appends
        write, begun, may_write = appends._writer.write, Event(), Event()

        def later(*args: Any) -> Any:
            begun.set()
            assert may_write.wait(30)
            return write(*args)

        monkeypatch.setattr(appends._writer, "write", later)
        with Client(running.port) as other:
            other.send(member.commit_request({("flights", 1): 7}))
            assert begun.wait(30)
            # Closed by a reset: a gateway answers a client that has only ended its requests.
            other.socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: len(running.server.gateway.connections) == 1)
        may_write.set()
        assert member.committed() == {("flights", 1): 7}

    def test_an_answer_that_cannot_be_made_costs_the_connection(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        member = alone(client)
        monkeypatch.setattr(CommitAnswer, "partitions", None)
        client.send(member.commit_request({("flights", 1): 7}))
        assert not client.receive_frame()

    def test_are_deleted(self, client: Client) -> None:
        member = alone(client)
        member.commit({("flights", 0): 3, ("flights", 1): 7})
        member.leave()
        assert delete_offset(client, "readers", "flights", 1) == [ErrorCode.none, ErrorCode.none]
        assert member.committed() == {("flights", 0): 3}

    def test_of_a_partition_that_is_not_there_are_not_deleted(self, client: Client) -> None:
        alone(client).leave()
        unknown = [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
        assert delete_offset(client, "readers", "flights", 99) == unknown
        assert delete_offset(client, "readers", "nowhere", 0) == unknown

    def test_of_a_group_that_is_not_there_are_not_deleted(self, client: Client) -> None:
        assert delete_offset(client, "nobody", "flights", 0) == [ErrorCode.group_id_not_found]


def delete_offset(client: Client, group: str, topic: str, partition: int) -> list[ErrorCode]:
    """The code of an OffsetDelete, and that of its partition."""
    api = ApiKey.OFFSET_DELETE
    parts = (part(api, 0, "OffsetDeleteRequestPartition", partition_index=partition),)
    topics = (part(api, 0, "OffsetDeleteRequestTopic", name=topic, partitions=parts),)
    answer = client.ask(body(api, 0, group_id=group, topics=topics))
    return [
        answer.error_code,
        *(one.error_code for found in answer.topics for one in found.partitions),
    ]


class TestAuthorization:
    def test_a_topic_that_may_not_be_read(
        self, running: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Client(running.port) as client:
            member = alone(client)
            member.commit({("flights", 0): 3})
        scopes = frozenset({Scope.READ, Scope.ADMIN})
        grant_only(monkeypatch, Grant(prefix="readers", scopes=scopes, resource=Resource.GROUP))
        with Client(running.port) as client:
            member.client = client
            refused = ErrorCode.topic_authorization_failed
            assert member.commit({("flights", 0): 4}) == [refused]
            assert member.committed(("flights", 0)) == {("flights", 0): -1}
            assert member.committed() == {}
            member.leave()
            assert delete_offset(client, "readers", "flights", 0) == [ErrorCode.none, refused]


def test_those_that_others_commit_stay_when_older_ones_expire(tmp_path: Path) -> None:
    values = {**QUICK, "offsets_retention_check_interval_ms": 300}
    with gateway(tmp_path / "log", **values) as running, Client(running.port) as client:
        running.server.gateway.admin.create_topics([NewTopic("flights", 2)])
        reader = GroupMember(client)
        assert reader.commit({("flights", 1): 1}) == [ErrorCode.none]
        now_ms = running.server.gateway.clock.now_ms()
        place = TopicPartition("flights", 0)
        append_as_another(running, offset_record("readers", place, CommittedOffset(3)))
        reader.committed()
        fresh = CommittedOffset(7, committed_ms=now_ms)
        append_as_another(running, offset_record("readers", place, fresh))
        sleep(0.7)

        assert reader.committed() == {("flights", 0): 7, ("flights", 1): 1}


def test_a_commit_that_no_batch_holds_is_refused_and_no_other_request(tmp_path: Path) -> None:
    with gateway(tmp_path / "log", **QUICK) as running, Client(running.port) as client:
        inside = running.server.gateway
        inside.admin.create_topics([NewTopic("flights", 9)])
        topic = offsets_topic(inside.catalog, inside.clock, 50)
        size = AlterConfigOp("max.message.bytes", 200)
        inside.admin.incremental_alter_configs({OFFSETS_TOPIC: [size]})
        reader = GroupMember(client)
        many = {("flights", number): 1 for number in range(9)}
        assert reader.commit(many) == [ErrorCode.unknown_server_error] * 9
        assert reader.commit({("flights", 1): 1}) == [ErrorCode.none]
        assert reader.committed() == {("flights", 1): 1}
        partitions = inside.catalog.topic_image(topic).partitions.values()
        assert sum(one.leader_epoch for one in partitions) == 1  # it was claimed once
