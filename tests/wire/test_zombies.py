"""A coordinator that another one has followed: what it may still answer, and how views may differ.

A request for a group looks at the newest metadata first: at the newest entry on a local disk, at
one that is at most poll_interval_ms old on an object store. Heartbeats and offsets are not answered
from a shard whose partition has another leader epoch there.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.offsets_topic import claim
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import StorageError
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from sparklog.storage.local import LocalFiles
from sparklog.wire.protocol.versions import ApiKey
from tests.failing import failing
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.grouping import GroupMember, alone
from tests.wire.requests import body, part
from tests.wire.test_taken_over import led_by

FLIGHTS = ("flights", 0)
QUICK = {"group_initial_rebalance_delay_ms": 0}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    AdminClient(tmp_path / "log").create_topics([NewTopic("flights", 1)])
    return tmp_path / "log"


@pytest.fixture
def member(log_dir: Path) -> Iterator[GroupMember]:
    """A member that has committed 3."""
    with gateway(log_dir, **QUICK) as running, Client(running.port) as client:
        found = alone(client)
        assert found.commit({FLIGHTS: 3}) == [ErrorCode.none]
        yield found


def claim_elsewhere(log_dir: Path) -> None:
    """Claim the partition of the group "readers", as another instance does."""
    catalog = Catalog(open_files(str(log_dir)))
    topic = catalog.topic(OFFSETS_TOPIC)
    assert claim(catalog, topic, partition_of("readers", topic.num_partitions)) is not None


def offsets_code(member: GroupMember) -> ErrorCode:
    """The error of the group in an OffsetFetch."""
    fields = {"group_id": member.group, "member_id": None, "member_epoch": -1, "topics": None}
    wanted = part(ApiKey.OFFSET_FETCH, 9, "OffsetFetchRequestGroup", **fields)
    [found] = member.client.ask(
        body(ApiKey.OFFSET_FETCH, 9, groups=(wanted,), require_stable=False)
    ).groups
    code: ErrorCode = found.error_code
    return code


def coordinator(client: Client, group: str) -> int:
    """The node id that an instance names."""
    asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=(group,), key_type=0)
    node_id: int = client.ask(asked).coordinators[0].node_id
    return node_id


class TestZombie:
    @pytest.mark.parametrize("asks", [GroupMember.heartbeat, offsets_code])
    def test_answers_nothing_without_a_commit(
        self, log_dir: Path, member: GroupMember, asks: Callable[[GroupMember], ErrorCode]
    ) -> None:
        assert asks(member) is ErrorCode.none
        claim_elsewhere(log_dir)
        assert asks(member) is ErrorCode.not_coordinator

    def test_commits_nothing(self, log_dir: Path, member: GroupMember) -> None:
        claim_elsewhere(log_dir)
        assert member.commit({FLIGHTS: 2}) == [ErrorCode.not_coordinator]

    def test_refuses_no_commit_itself(self, log_dir: Path, member: GroupMember) -> None:
        member.generation -= 1
        assert member.commit({FLIGHTS: 2}) == [ErrorCode.illegal_generation]
        claim_elsewhere(log_dir)
        assert member.commit({FLIGHTS: 2}) == [ErrorCode.not_coordinator]

    @pytest.mark.parametrize("asks", [GroupMember.heartbeat, offsets_code])
    def test_on_an_object_store_sees_it_with_the_next_look(
        self,
        log_dir: Path,
        monkeypatch: pytest.MonkeyPatch,
        asks: Callable[[GroupMember], ErrorCode],
    ) -> None:
        monkeypatch.setattr(LocalFiles, "is_local", False)
        settings = {**QUICK, "poll_interval_ms": 100}
        with gateway(log_dir, **settings) as running, Client(running.port) as client:
            member = alone(client)
            assert member.commit({FLIGHTS: 3}) == [ErrorCode.none]
            claim_elsewhere(log_dir)
            until(lambda: asks(member) is ErrorCode.not_coordinator)
            assert asks(member) is ErrorCode.not_coordinator
            assert member.commit({FLIGHTS: 2}) == [ErrorCode.not_coordinator]

    def test_that_cannot_read_the_log_dir_answers_nothing_either(
        self, log_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with gateway(log_dir, **QUICK) as running, Client(running.port) as client:
            member = alone(client)
            with monkeypatch.context() as broken:
                topics = running.server.gateway.topics
                broken.setattr(topics, "image_at_hand", lambda **_: None)
                broken.setattr(
                    topics, "image", failing(StorageError, "the log dir is out of reach")
                )
                assert member.heartbeat() is ErrorCode.coordinator_not_available
                assert offsets_code(member) is ErrorCode.not_coordinator
            assert member.heartbeat() is ErrorCode.none


class TestViews:
    def test_differ_after_a_join_and_the_epoch_decides(
        self, log_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        group = led_by(1)
        with gateway(log_dir, node_id=0, **QUICK) as first, Client(first.port) as client:
            member = alone(client, group)
            assert member.commit({FLIGHTS: 3}) == [ErrorCode.none]
            with monkeypatch.context() as late:
                late.setattr(first.server.gateway.instances, "saw", lambda _: None)
                with gateway(log_dir, node_id=1, **QUICK) as second:
                    self.goes_on_at(second, member)
                    assert coordinator(client, group) == 0  # what it believes
                    assert member.heartbeat() is ErrorCode.not_coordinator
                    assert member.commit({FLIGHTS: 2}) == [ErrorCode.not_coordinator]
                    late.undo()
                    assert coordinator(client, group) == 1
                    assert member.heartbeat() is ErrorCode.not_coordinator
            until(lambda: member.heartbeat() is ErrorCode.none)  # the second one has left
            assert member.committed() == {FLIGHTS: 4}
            assert member.commit({FLIGHTS: 5}) == [ErrorCode.none]

    def goes_on_at(self, second: RunningGateway, member: GroupMember) -> None:
        """The member in its generation at the instance that has joined."""
        with Client(second.port) as client:
            assert coordinator(client, member.group) == 1
            moved = GroupMember(client, member.group)
            moved.member_id, moved.generation = member.member_id, member.generation
            assert moved.heartbeat() is ErrorCode.none
            assert moved.committed() == {FLIGHTS: 3}
            assert moved.commit({FLIGHTS: 4}) == [ErrorCode.none]
