"""Groups of a gateway that others read and change in the log, as AdminClient and streams do."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock, SystemClock
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.requests import Request
from sparklog.errors import GroupNotEmptyError
from sparklog.metadata.state.image import Image
from sparklog.wire.groups.coordinators import Coordinators
from tests.logs import catalog
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.grouping import GroupMember, alone

ONE_PARTITION = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 1}
FLIGHTS = ("flights", 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """With the topic `flights`."""
    found = str(tmp_path / "log")
    AdminClient(found).create_topics([NewTopic("flights", 2)])
    return found


@pytest.fixture
def running(log_dir: str) -> Iterator[RunningGateway]:
    """A gateway whose groups all lie in one partition."""
    with gateway(log_dir, **ONE_PARTITION) as found:
        yield found


@pytest.fixture
def admin(log_dir: str) -> AdminClient:
    return AdminClient(log_dir)


def test_offsets_of_a_deleted_topic_are_not_those_of_a_new_one(
    client: Client, admin: AdminClient
) -> None:
    member = alone(client)
    member.commit({FLIGHTS: 7})
    admin.delete_topics(["flights"])
    assert member.committed() == {}
    admin.create_topics([NewTopic("flights", 2)])
    assert member.committed(FLIGHTS) == {FLIGHTS: -1}
    assert member.committed() == {}
    member.commit({FLIGHTS: 1})
    assert member.committed() == {FLIGHTS: 1}


def test_a_commit_by_a_clock_that_is_behind_is_not_older_than_its_topic(
    client: Client, log_dir: str
) -> None:
    ahead = AdminClient(log_dir, clock=ManualClock(SystemClock().now_ms() + 86_400_000))
    ahead.create_topics([NewTopic("trains", 1)])
    member = alone(client)
    for offset in (7, 8):  # the second one has the form of the first
        member.commit({("trains", 0): offset})
        assert member.committed() == {("trains", 0): offset}


@pytest.mark.parametrize("is_known_form", [True, False])
def test_nor_than_a_topic_that_the_coordinator_has_not_seen_yet(
    client: Client, log_dir: str, is_known_form: bool
) -> None:
    """Goal: the commit counts. Method: it is checked on an image with the deleted topic."""
    member = alone(client)
    if is_known_form:
        member.commit({FLIGHTS: 7})
    make_anew_tomorrow(log_dir)
    assert member.commit({FLIGHTS: 5}) == [ErrorCode.none]
    assert member.committed() == {FLIGHTS: 5}


def test_nor_than_a_topic_that_was_made_since_the_look(
    client: Client, log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: as above, for a commit that needs a look: here a partition is refused.

    On an object store the image of a look may be older than the commit.
    """
    member, ask, images = alone(client), Coordinators.ask, list[Image | None]()

    async def asked_later(
        self: Coordinators, request: Request, group_id: str, image: Image | None = None
    ) -> Any:
        if not images:
            make_anew_tomorrow(log_dir)
        images.append(image)
        return await ask(self, request, group_id, image)

    with monkeypatch.context() as patch:
        patch.setattr(Coordinators, "ask", asked_later)
        unknown = ErrorCode.unknown_topic_or_partition
        assert member.commit({("nowhere", 0): 1, FLIGHTS: 5}) == [unknown, ErrorCode.none]
    assert member.committed() == {FLIGHTS: 5}
    assert len(images) == 2


def make_anew_tomorrow(log_dir: str) -> None:
    """Delete `flights` and make it again, by a clock that is a day ahead."""
    ahead = AdminClient(log_dir, clock=ManualClock(SystemClock().now_ms() + 86_400_000))
    ahead.delete_topics(["flights"])
    ahead.create_topics([NewTopic("flights", 2)])


class TestAGroupWithMembers:
    def test_is_read(self, client: Client, admin: AdminClient) -> None:
        member = alone(client)
        member.commit({FLIGHTS: 7})
        [found] = admin.describe_consumer_groups(["readers"])
        assert (found.state, [one.member_id for one in found.members]) == (
            "Stable",
            [member.member_id],
        )
        [(place, committed)] = admin.list_consumer_group_offsets("readers").items()
        assert (place, committed and committed.offset) == (FLIGHTS, 7)

    def test_is_not_changed(self, client: Client, admin: AdminClient) -> None:
        member = alone(client)
        member.commit({FLIGHTS: 7})
        with pytest.raises(GroupNotEmptyError):
            admin.alter_consumer_group_offsets("readers", {FLIGHTS: 0})
        assert (member.committed(), member.heartbeat()) == ({FLIGHTS: 7}, ErrorCode.none)

    def test_goes_on_while_others_in_its_partition_are_changed(
        self, client: Client, admin: AdminClient
    ) -> None:
        member = alone(client)
        for offset in range(20):
            admin.alter_consumer_group_offsets("stream", {FLIGHTS: offset})
            assert member.heartbeat() is ErrorCode.none
            assert member.commit({FLIGHTS: offset}) == [ErrorCode.none]
        stream = GroupMember(client, "stream")
        assert (stream.committed(), member.committed()) == ({FLIGHTS: 19}, {FLIGHTS: 19})


class TestAGroupWithoutMembers:
    def test_is_changed_and_the_gateway_sees_it(self, client: Client, admin: AdminClient) -> None:
        member = alone(client)
        member.commit({FLIGHTS: 7})
        member.leave()
        admin.alter_consumer_group_offsets("readers", {FLIGHTS: 3, ("flights", 1): 1})
        assert member.committed() == {FLIGHTS: 3, ("flights", 1): 1}
        admin.delete_consumer_group_offsets("readers", [("flights", 1)])
        assert member.committed() == {FLIGHTS: 3}

    def test_is_deleted(self, client: Client, admin: AdminClient) -> None:
        member = alone(client)
        member.commit({FLIGHTS: 7})
        member.leave()
        admin.delete_consumer_groups(["readers"])
        assert member.committed() == {}
        assert admin.list_consumer_groups() == []


def test_members_of_a_gateway_that_has_ended_are_removed(log_dir: str, admin: AdminClient) -> None:
    with gateway(log_dir, **ONE_PARTITION) as first, Client(first.port) as client:
        member = alone(client)
        member.commit({FLIGHTS: 7})
    admin.alter_consumer_group_offsets("readers", {FLIGHTS: 2})
    with gateway(log_dir, **ONE_PARTITION) as second, Client(second.port) as client:
        member.client = client
        assert member.heartbeat() is ErrorCode.unknown_member_id
        assert alone(client).committed() == {FLIGHTS: 2}


def test_who_write_at_once_lose_nothing(log_dir: str, admin: AdminClient) -> None:
    """Writers to one partition of the offsets topic, each with an AdminClient of its own."""
    found = catalog(log_dir)
    offsets_topic(found, found.clock, 1)

    def commits(group: str) -> None:
        own = AdminClient(log_dir)
        for offset in range(5):
            own.alter_consumer_group_offsets(group, {FLIGHTS: offset})

    groups = ["a", "b", "c", "d"]
    with ThreadPoolExecutor(len(groups)) as pool:
        list(pool.map(commits, groups))
    told = [admin.list_consumer_group_offsets(group).values() for group in groups]
    assert [[one and one.offset for one in offsets] for offsets in told] == [[4]] * len(groups)
