"""Groups and offsets that are deleted while a transaction holds offsets of the group."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.errors import InvalidOptionError, StorageError
from sparklog.transactions.steps import Transactions
from sparklog.wire.each import AT_ONCE
from sparklog.wire.gateway import Gateway
from sparklog.wire.groups.coordinators import Coordinators
from sparklog.wire.handlers import Call
from sparklog.wire.handlers.groups import group_deletes
from sparklog.wire.handlers.groups.group_deletes import Places
from sparklog.wire.protocol.versions import ApiKey
from tests.failing import failing_later
from tests.wire.gateways import Client, RunningGateway
from tests.wire.grouping import GroupMember
from tests.wire.requests import body
from tests.wire.test_group_offsets import delete_offset
from tests.wire.test_transaction_steps import committed, end, init, pending


@pytest.fixture(autouse=True)
def topics(running: RunningGateway) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 2)])


@pytest.fixture
def producer(client: Client) -> Any:
    """A producer whose transaction holds an offset of t-0 for group g."""
    found = init(client)
    pending(client, found)
    return found


def deleted(client: Client) -> ErrorCode:
    """The code of DeleteGroups of group g."""
    [found] = client.ask(body(ApiKey.DELETE_GROUPS, 2, groups_names=("g",))).results
    code: ErrorCode = found.error_code
    return code


def test_a_deleted_group_does_not_come_back(client: Client, producer: Any) -> None:
    assert deleted(client) == ErrorCode.none
    assert deleted(client) == ErrorCode.group_id_not_found
    assert end(client, producer).error_code == ErrorCode.none
    assert committed(client).committed_offset == -1


def test_nor_does_a_deleted_offset(client: Client, producer: Any) -> None:
    assert delete_offset(client, "g", "t", 0) == [ErrorCode.none, ErrorCode.none]
    end(client, producer)
    assert committed(client).committed_offset == -1


def test_nor_one_of_a_topic_that_was_deleted_since_it_was_checked(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, keep, found = running.server.gateway.admin, Transactions.commit_offsets, init(client)

    def behind(*asked: Any, **more: Any) -> None:
        admin.delete_topics(["t"])
        keep(*asked, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "commit_offsets", behind)
        assert pending(client, found) == ErrorCode.unknown_topic_or_partition
    admin.create_topics([NewTopic("t", 2)])
    assert pending(client, found, offset=1) == ErrorCode.none
    end(client, found)
    assert committed(client).committed_offset == 1


def test_another_partition_keeps_its_offset(client: Client, producer: Any) -> None:
    assert delete_offset(client, "g", "t", 1) == [ErrorCode.none, ErrorCode.none]
    end(client, producer)
    assert committed(client).committed_offset == 5


def test_a_group_with_members_keeps_its_offsets(
    running: RunningGateway, client: Client, producer: Any
) -> None:
    with Client(running.port) as other:
        member = GroupMember(other, "g")
        member.join()
        assert deleted(client) == ErrorCode.non_empty_group
        assert delete_offset(client, "g", "t", 0)[0] == ErrorCode.non_empty_group
        member.leave()
    end(client, producer)
    assert committed(client).committed_offset == 5


def test_trouble_is_told_and_the_deletion_may_be_tried_again(
    running: RunningGateway, client: Client, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            running.server.gateway, "transact", failing_later(StorageError, "no space left")
        )
        assert deleted(client) == ErrorCode.coordinator_not_available
        assert delete_offset(client, "g", "t", 0) == [ErrorCode.coordinator_not_available]
    assert deleted(client) == ErrorCode.none
    end(client, producer)
    assert committed(client).committed_offset == -1


def test_a_coordinator_that_is_not_there_is_told(
    running: RunningGateway, client: Client, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        running.server.gateway.coordinators, "ask", failing_later(StorageError, "no space left")
    )
    assert deleted(client) == ErrorCode.coordinator_not_available
    assert delete_offset(client, "g", "t", 0) == [ErrorCode.coordinator_not_available]


def test_a_storage_that_fails_costs_only_the_groups_that_are_left(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a client asks again for those alone: the others are not there any more."""
    for group in ("a", "b"):
        assert GroupMember(client, group).commit({("t", 0): 1}) == [ErrorCode.none]

    async def held(_: Call, group_id: str) -> Places:
        if group_id == "b":
            raise StorageError("the disk is gone")
        return frozenset()

    monkeypatch.setattr(group_deletes, "_held", held)
    found = client.ask(body(ApiKey.DELETE_GROUPS, 2, groups_names=("a", "b"))).results
    codes = {one.group_id: one.error_code for one in found}
    assert codes == {"a": ErrorCode.none, "b": ErrorCode.coordinator_not_available}


@pytest.mark.parametrize("step", [(Gateway, "newest_image"), (Coordinators, "ask")])
def test_a_storage_that_is_away_is_waited_for_once(
    client: Client, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    """Goal: not once for each AT_ONCE groups: a look may take 90 seconds."""
    looks = 0

    async def away(*_: Any) -> None:
        nonlocal looks
        looks += 1
        raise StorageError("the store does not answer")

    monkeypatch.setattr(*step, away)
    many = tuple(map(str, range(3 * AT_ONCE)))
    found = client.ask(body(ApiKey.DELETE_GROUPS, 2, groups_names=many)).results
    assert tuple(one.group_id for one in found) == many
    assert {one.error_code for one in found} == {ErrorCode.coordinator_not_available}
    assert looks <= AT_ONCE


def test_an_error_of_one_group_is_its_own(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    GroupMember(client, "a").commit({("t", 0): 1})
    ask = Coordinators.ask

    async def refused(self: Coordinators, request: Any, group_id: str) -> Any:
        if group_id == "b":
            raise InvalidOptionError("not this one")
        return await ask(self, request, group_id)

    monkeypatch.setattr(Coordinators, "ask", refused)
    found = client.ask(body(ApiKey.DELETE_GROUPS, 2, groups_names=("b", "a"))).results
    assert [one.error_code == ErrorCode.none for one in found] == [False, True]


def test_a_group_that_is_named_twice_is_deleted_once(client: Client) -> None:
    GroupMember(client, "a").commit({("t", 0): 1})
    found = client.ask(body(ApiKey.DELETE_GROUPS, 2, groups_names=("a", "a"))).results
    assert [one.error_code for one in found] == [ErrorCode.none]
