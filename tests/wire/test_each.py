"""Work on many items of a request: side by side, in the order of the items, and in turn."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Event, Semaphore, current_thread
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.coordinator.offsets_topic import load
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.requests import ListedGroup
from sparklog.wire.each import AT_ONCE, each
from sparklog.wire.gateway import CLAIMS_LOCAL
from sparklog.wire.groups import coordinators
from sparklog.wire.groups.coordinators import Coordinators
from sparklog.wire.handlers import Call, Reply
from sparklog.wire.handlers.partitions import QUICK as QUICK_PARTITIONS
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.grouping import QUICK, GroupMember
from tests.wire.requests import body, part

GROUPS = tuple(f"g{number}" for number in range(10))
LISTED = body(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=())


def test_results_are_in_order_and_not_all_are_worked_on_at_once() -> None:
    most, running = 0, 0

    async def doubled(number: int) -> int:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return 2 * number

    assert asyncio.run(each(range(200), doubled)) == [*range(0, 400, 2)]
    assert most == AT_ONCE


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log dir with an offset of each group."""
    with gateway(tmp_path / "log", **QUICK) as running, Client(running.port) as client:
        running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
        for group in GROUPS:
            assert GroupMember(client, group).commit({("flights", 0): 1}) == [ErrorCode.none]
    return tmp_path / "log"


@pytest.fixture
def running(log_dir: Path) -> Iterator[RunningGateway]:
    """A gateway that has read none of them."""
    with gateway(log_dir, **QUICK) as found:
        yield found


def test_partitions_are_read_side_by_side(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({partition_of(group, 4) for group in GROUPS}) == 4
    both = Barrier(CLAIMS_LOCAL)

    def loaded(*given: Any) -> int:
        both.wait(30)
        return load(*given)

    monkeypatch.setattr(coordinators, "load", loaded)
    assert sorted(one.group_id for one in client.ask(LISTED).groups) == [*GROUPS]


def test_lookups_do_not_wait_behind_claims(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = Semaphore(0), Event()

    def stands_still(*given: Any) -> int:
        begun.release()
        may_end.wait(30)
        return load(*given)

    monkeypatch.setattr(coordinators, "load", stands_still)
    client.send(LISTED)
    try:
        assert all(begun.acquire(timeout=10) for _ in range(CLAIMS_LOCAL))
        assert running.begin(running.server.gateway.lookup(lambda: "found")).result(10) == "found"
    finally:
        may_end.set()


def test_groups_that_are_deleted_share_commits(running: RunningGateway, client: Client) -> None:
    client.ask(LISTED)
    log = running.server.gateway.catalog.log
    before = log.image().version
    found = client.ask(body(ApiKey.DELETE_GROUPS, 2, groups_names=GROUPS)).results
    assert {one.group_id: one.error_code for one in found} == dict.fromkeys(GROUPS, ErrorCode.none)
    assert log.image().version - before <= 2


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pool of the thread that has made each answer."""
    answer, found = Call.answer, list[str]()

    def noted(call: Call, fields: Any) -> Reply:
        found.append(current_thread().name.split("_")[0])
        return answer(call, fields)

    monkeypatch.setattr(Call, "answer", noted)
    return found


class TestALongAnswerIsMadeBesideTheEventLoop:
    def test_of_offsets(self, client: Client, threads: list[str]) -> None:
        many = [("flights", number) for number in range(QUICK_PARTITIONS + 1)]
        assert GroupMember(client, "g0").committed(*many)["flights", 0] == 1
        assert threads == ["beside"]

    def test_of_groups(
        self, client: Client, threads: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def many(_: Coordinators) -> list[ListedGroup]:
            return [ListedGroup("g", "", "Empty", "classic")] * (QUICK_PARTITIONS + 1)

        monkeypatch.setattr(Coordinators, "groups", many)
        assert len(client.ask(LISTED).groups) == QUICK_PARTITIONS + 1
        assert threads == ["beside"]

    def test_of_transactional_ids(self, client: Client, threads: list[str]) -> None:
        fields = {"state_filters": (), "producer_id_filters": (), "duration_filter": -1}
        assert client.ask(body(ApiKey.LIST_TRANSACTIONS, 1, **fields)).transaction_states == ()
        assert threads == ["answer"]


def test_what_is_named_twice_is_told_once(client: Client) -> None:
    """Goal: a short request has no answer without bound."""
    key = ApiKey.OFFSET_FETCH
    topic = part(key, 9, "OffsetFetchRequestTopics", name="flights", partition_indexes=(0, 0))
    fields = {"group_id": "g0", "member_id": None, "member_epoch": -1}
    offsets = [
        part(key, 9, "OffsetFetchRequestGroup", topics=topics, **fields)
        for topics in (None, (topic,), (topic, topic))
    ]
    names = {"groups": ("g0", "g0"), "group_ids": ("g0", "g0"), "transactional_ids": ("x", "x")}
    plain = {"include_authorized_operations": False, "require_stable": False}
    for api in (ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE):
        assert len(client.ask(body(api, 1, **names, **plain)).groups) == 1
    [group] = client.ask(body(key, 9, groups=tuple(offsets), **plain)).groups
    assert [len(one.partitions) for one in group.topics] == [1]
    asked = body(ApiKey.DESCRIBE_TRANSACTIONS, 0, **names)
    assert len(client.ask(asked).transaction_states) == 1
    asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("g0", "g0"), key_type=0)
    assert len(client.ask(asked).coordinators) == 1
