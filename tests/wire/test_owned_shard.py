"""A shard that an instance owns: answers wait for records; an append that fails ends it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from sparklog.clock import ManualClock
from sparklog.coordinator.offsets import offset_record
from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import (
    CommitRequest,
    CommittedOffset,
    FetchRequest,
    JoinRequest,
    Protocol,
)
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    NotCoordinatorError,
    RecordTooLargeError,
    SparklogError,
)
from sparklog.group_commit.appends import Append, AppendCommit, Appended
from sparklog.model import TopicDescription, TopicPartition
from sparklog.wire.owned_shard import Claimed, OwnedShard

TOPIC = TopicDescription("__consumer_offsets", "id", 50, {}, 0)
FLIGHTS = TopicPartition("flights", 0)
END = 10


class HeldAppends:
    """Appends that land when they are told to."""

    def __init__(self) -> None:
        self.held: list[tuple[Append, asyncio.Future[Any]]] = []

    def append(self, appends: list[Append]) -> "asyncio.Future[Any]":
        [one] = appends
        self.held.append((one, asyncio.get_running_loop().create_future()))
        return self.held[-1][1]

    async def land(self, outcome: Appended | SparklogError | Exception) -> None:
        """End the first append; the shard takes note."""
        _, done = self.held.pop(0)
        if isinstance(outcome, Appended | SparklogError):
            done.set_result([outcome])
        else:
            done.set_exception(outcome)
        await asyncio.sleep(0)


class Owner:
    """A shard, its appends, and errors that ended it."""

    def __init__(self, **limits: int) -> None:
        self.appends = HeldAppends()
        self.clock = ManualClock()
        self.ends: list[SparklogError] = []
        shard = Shard(GroupLimits(**limits), lambda: "id")
        appends = cast(AppendCommit, self.appends)

        def ended(_: OwnedShard, error: SparklogError) -> None:
            self.ends.append(error)

        self.owned = OwnedShard(Claimed(TOPIC, 3, 7, END), shard, appends, self.clock, ended)

    def commits(self, offset: int) -> "asyncio.Future[Any]":
        return self.owned.ask(CommitRequest("g", {FLIGHTS: CommittedOffset(offset)}))

    def fetches(self) -> "asyncio.Future[Any]":
        return self.owned.ask(FetchRequest("g"))


def offset_of(number: int) -> Record:
    """The record of an offset that somebody else commits."""
    return offset_record("g", FLIGHTS, CommittedOffset(number))


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def landed(offset: int) -> Appended:
    return Appended(offset, -1, 0)


def test_an_answer_waits_for_its_records_and_those_behind_it_wait_too() -> None:
    async def told() -> None:
        owner = Owner()
        first, second, read = owner.commits(1), owner.commits(2), owner.fetches()
        assert [one.leader_epoch for one, _ in owner.appends.held] == [7, 7]
        await owner.appends.land(landed(END))
        assert (first.done(), second.done(), read.done()) == (True, False, False)
        await owner.appends.land(landed(END + 1))
        assert read.result().offsets[FLIGHTS].offset == 2
        assert owner.fetches().done()

    run(told())


def test_offsets_of_others_are_followed() -> None:
    async def told() -> None:
        owner = Owner()
        assert owner.owned.follow(END, [offset_of(5)], END + 1)
        assert owner.fetches().result().offsets[FLIGHTS].offset == 5
        assert owner.owned.follow(END, [offset_of(3)], END + 1)
        assert owner.fetches().result().offsets[FLIGHTS].offset == 5
        assert not owner.owned.follow(END + 1, [Record(b"\0\2", None)], END + 2)

    run(told())


def test_offsets_of_others_wait_for_what_is_in_flight() -> None:
    async def told() -> None:
        owner = Owner()
        owner.commits(1)
        assert owner.owned.follow(END, [offset_of(5)], END + 1)
        await owner.appends.land(landed(END))
        assert owner.fetches().result().offsets[FLIGHTS].offset == 1

    run(told())


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (FencedLeaderEpochError("another"), NotCoordinatorError),
        (RecordTooLargeError("large"), RecordTooLargeError),
        (OSError("disk"), CoordinatorNotAvailableError),
    ],
)
def test_an_append_that_fails_ends_it(outcome: Exception, kind: type[SparklogError]) -> None:
    async def told() -> None:
        owner = Owner()
        waiting = [owner.commits(1), owner.commits(2), owner.fetches()]
        await owner.appends.land(outcome)
        assert owner.owned.is_over
        assert [type(one.exception()) for one in waiting] == [kind] * 3
        await owner.appends.land(landed(END))
        assert [type(error) for error in owner.ends] == [kind]

    run(told())


def test_records_of_others_before_its_own_end_it() -> None:
    async def told() -> None:
        owner = Owner()
        mine = owner.commits(1)
        await owner.appends.land(landed(END + 5))
        assert mine.result().error_code == 0
        assert [type(error) for error in owner.ends] == [CoordinatorNotAvailableError]

    run(told())


def test_it_ends_once() -> None:
    async def told() -> None:
        owner = Owner()
        answered = owner.fetches()
        owner.owned.end(NotCoordinatorError("one"))
        owner.owned.end(NotCoordinatorError("two"))
        assert answered.result().error_code == 0
        assert [error.message for error in owner.ends] == ["one"]

    run(told())


def test_its_timers_answer_too() -> None:
    async def told() -> None:
        owner = Owner(initial_rebalance_delay_ms=1)
        protocols = (Protocol("range", b""),)
        joined = owner.owned.ask(JoinRequest("g", protocols=protocols, needs_member_id=False))
        assert not joined.done()
        owner.clock.advance(1)
        async with asyncio.timeout(30):
            assert (await joined).generation == 1

    run(told())
