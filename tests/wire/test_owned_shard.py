"""A shard that an instance owns: answers wait for records; an append that fails ends it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from sparklog.clock import ManualClock
from sparklog.coordinator.batches import batch_of
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
    UsageError,
)
from sparklog.group_commit.appends import Append, AppendCommit, Appended
from sparklog.model import TopicDescription, TopicPartition
from sparklog.record.batches import byte_view
from sparklog.record.scan import scan_batches
from sparklog.wire.owned_shard import Claimed, OwnedShard

TOPIC = TopicDescription("__consumer_offsets", "id", 50, {}, 0)
FLIGHTS = TopicPartition("flights", 0)
OLD = TopicPartition("flights-old", 0)
END = 10


class HeldAppends:
    """Appends whose group begins, and that land, when they are told to."""

    def __init__(self) -> None:
        self.taken: list[Append] = []
        self.grown = 0
        self._waiting: list[Callable[[], Append]] = []
        self._done: list[asyncio.Future[Any]] = []

    def append_when_taken(self, make: Callable[[], Append]) -> "asyncio.Future[Any]":
        self._waiting.append(make)
        self._done.append(asyncio.get_running_loop().create_future())
        return self._done[-1]

    def grew(self) -> None:
        self.grown += 1

    def take(self) -> None:
        """Begin the group of all that waits."""
        self.taken += [make() for make in self._waiting]
        self._waiting.clear()

    async def land(self, outcome: Appended | SparklogError | Exception) -> None:
        """End the first append; the shard takes note."""
        self.take()
        done = self._done.pop(0)
        if isinstance(outcome, Appended | SparklogError):
            done.set_result([outcome])
        else:
            done.set_exception(outcome)
        await asyncio.sleep(0)


class Owner:
    """A shard, its appends, others' records by their first offset, and errors that ended it."""

    def __init__(self, topic: TopicDescription = TOPIC, **limits: int) -> None:
        self.appends = HeldAppends()
        self.clock = ManualClock()
        self.ends: list[SparklogError] = []
        self.others: dict[int, list[Record]] = {}
        self.reads: list[tuple[int, int]] = []
        self.reads_cancelled = 0
        self.may_read = asyncio.Event()
        self.may_read.set()
        shard = Shard(GroupLimits(**limits), lambda: "id")
        appends = cast(AppendCommit, self.appends)

        def ended(_: OwnedShard, error: SparklogError) -> None:
            self.ends.append(error)

        claimed = Claimed(topic, 3, 7, END)
        self.owned = OwnedShard(claimed, shard, self._read, appends, self.clock, ended)

    async def _read(self, start: int, end: int) -> list[Record]:
        self.reads.append((start, end))
        try:
            await self.may_read.wait()
        except asyncio.CancelledError:
            self.reads_cancelled += 1
            raise
        return self.others[start]

    def commits(self, offset: int) -> "asyncio.Future[Any]":
        return self.owned.ask(CommitRequest("g", {FLIGHTS: CommittedOffset(offset)}))

    def fetches(self) -> "asyncio.Future[Any]":
        return self.owned.ask(FetchRequest("g"))

    async def offset(self, end: int, topic: TopicPartition = FLIGHTS) -> int:
        """The offset that a fetch returns which has seen the log up to `end`."""
        async with asyncio.timeout(30):
            assert await self.owned.caught_up(end)
        return int((await self.fetches()).offsets[topic].offset)


def offset_of(number: int, topic: TopicPartition = FLIGHTS) -> Record:
    """The record of an offset that somebody else commits."""
    return offset_record("g", topic, CommittedOffset(number))


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def landed(offset: int) -> Appended:
    return Appended(offset, -1, 0)


def test_an_answer_waits_for_its_records_and_those_behind_it_wait_too() -> None:
    async def told() -> None:
        owner = Owner()
        first = owner.commits(1)
        owner.appends.take()
        second, read = owner.commits(2), owner.fetches()
        owner.appends.take()
        assert [one.leader_epoch for one in owner.appends.taken] == [7, 7]
        await owner.appends.land(landed(END))
        assert (first.done(), second.done(), read.done()) == (True, False, False)
        await owner.appends.land(landed(END + 1))
        assert read.result().offsets[FLIGHTS].offset == 2
        assert owner.fetches().done()

    run(told())


def test_a_caller_that_no_longer_waits_keeps_no_answer_from_others() -> None:
    async def told() -> None:
        owner = Owner()
        first, second = owner.commits(1), owner.commits(2)
        first.cancel()
        await owner.appends.land(landed(END))
        assert second.done()
        assert not owner.ends

    run(told())


def test_records_that_wait_for_the_same_commit_are_one_batch() -> None:
    async def told() -> None:
        owner = Owner()
        waiting = [owner.commits(1), owner.fetches(), owner.commits(2), owner.fetches()]
        assert owner.appends.grown == 1
        await owner.appends.land(landed(END))
        [append] = owner.appends.taken
        assert scan_batches(byte_view(append.batch)).batches.record_count.tolist() == [2]
        assert [one.done() for one in waiting] == [True] * 4
        last = owner.commits(3)
        await owner.appends.land(landed(END + 2))
        assert last.done()
        assert not owner.ends

    run(told())


def test_a_batch_grows_no_further_than_its_topic_takes() -> None:
    async def told() -> None:
        owner = Owner(replace(TOPIC, configs={"max.message.bytes": "200"}))
        waiting = [owner.commits(number) for number in range(3)]
        owner.appends.take()
        assert owner.appends.grown == 1
        assert all(len(one.batch) <= 200 for one in owner.appends.taken)
        await owner.appends.land(landed(END))
        assert [one.done() for one in waiting] == [True, True, False]
        await owner.appends.land(landed(END + 2))
        assert waiting[2].done()

    run(told())


def test_offsets_of_others_are_read_before_a_request_that_may_know_of_them() -> None:
    async def told() -> None:
        owner = Owner()
        owner.others[END] = [offset_of(5)]
        assert await owner.offset(END + 1) == 5
        assert await owner.offset(END + 1) == 5
        assert owner.reads == [(END, END + 1)]

    run(told())


def test_calls_that_wait_for_the_same_offsets_read_them_once() -> None:
    async def told() -> None:
        owner = Owner()
        owner.others[END] = [offset_of(5)]
        assert await asyncio.gather(*(owner.offset(END + 1) for _ in range(3))) == [5, 5, 5]
        assert len(owner.reads) == 1

    run(told())


def test_what_waits_for_others_goes_on_when_one_caller_gives_up() -> None:
    async def told() -> None:
        owner = Owner()
        owner.others[END] = [offset_of(5)]
        given_up = asyncio.ensure_future(owner.offset(END + 1))
        waits = asyncio.ensure_future(owner.offset(END + 1))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await waits == 5

    run(told())


def test_what_is_in_flight_is_not_read_as_offsets_of_others() -> None:
    async def told() -> None:
        owner = Owner()
        owner.commits(1)
        fetched = asyncio.ensure_future(owner.offset(END + 1))
        await asyncio.sleep(0)
        await owner.appends.land(landed(END))
        assert await fetched == 1
        assert not owner.reads

    run(told())


def test_offsets_of_others_between_its_own_are_read_and_its_own_stay() -> None:
    """own 1 | others | own 2 (FLIGHTS) own (OTHER) | in flight: own (OTHER)"""

    async def told() -> None:
        owner, other = Owner(), TopicPartition("flights", 1)
        owner.others[END + 1] = [offset_of(5), offset_of(6, other), offset_of(7, OLD)]
        first = owner.commits(1)
        owner.appends.take()
        second = owner.commits(2)
        owner.appends.take()
        third = owner.owned.ask(CommitRequest("g", {other: CommittedOffset(3)}))
        await owner.appends.land(landed(END))
        await owner.appends.land(landed(END + 4))
        await owner.appends.land(landed(END + 5))
        assert [one.done() for one in (first, second, third)] == [True] * 3
        found = [await owner.offset(END + 6, one) for one in (FLIGHTS, other, OLD)]
        assert found == [2, 3, 7]
        assert owner.reads == [(END + 1, END + 4)]
        assert not owner.ends

    run(told())


def test_what_it_commits_while_offsets_of_others_are_read_is_newer() -> None:
    async def told() -> None:
        owner = Owner()
        owner.others[END] = [offset_of(5)]
        owner.may_read.clear()
        fetched = asyncio.ensure_future(owner.offset(END + 1))
        await asyncio.sleep(0)
        newer = owner.commits(6)
        owner.may_read.set()
        await owner.appends.land(landed(END + 1))
        assert await fetched == 6
        assert newer.done()

    run(told())


def test_offsets_of_others_at_several_places_are_read_in_their_order() -> None:
    async def told() -> None:
        owner = Owner()
        owner.others[END] = [offset_of(5, OLD), offset_of(5)]
        owner.others[END + 3] = [offset_of(7, OLD)]
        owner.may_read.clear()
        for place in (END + 2, END + 4):
            owner.commits(place)
            await owner.appends.land(landed(place))
        found = asyncio.ensure_future(owner.offset(END + 5, OLD))
        await asyncio.sleep(0)
        assert not found.done()
        owner.may_read.set()
        assert await found == 7
        assert await owner.offset(END + 5) == END + 4
        assert owner.reads == [(END, END + 2), (END + 3, END + 4)]

    run(told())


@pytest.mark.parametrize("found", [[Record(b"\0\2", None)], None])
def test_groups_that_others_change_and_a_read_that_fails_end_it(found: list[Record] | None) -> None:
    async def told() -> None:
        owner = Owner()
        if found is not None:
            owner.others[END] = found
        assert not await owner.owned.caught_up(END + 1)
        assert [type(error) for error in owner.ends] == [CoordinatorNotAvailableError]
        assert not await owner.owned.caught_up(END)

    run(told())


def test_its_end_answers_those_that_wait_for_offsets_of_others() -> None:
    async def told() -> None:
        owner = Owner()
        owner.may_read.clear()
        waits = asyncio.ensure_future(owner.owned.caught_up(END + 1))
        while not owner.reads:
            await asyncio.sleep(0)
        owner.owned.end(NotCoordinatorError("one"))
        assert not await waits
        await asyncio.sleep(0)
        assert owner.reads_cancelled == 1
        assert [error.message for error in owner.ends] == ["one"]

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
        waiting = [owner.commits(1)]
        owner.appends.take()
        waiting += [owner.commits(2), owner.fetches()]
        await owner.appends.land(outcome)
        assert owner.owned.is_over
        assert [type(one.exception()) for one in waiting] == [kind] * 3
        await owner.appends.land(landed(END))
        assert [type(error) for error in owner.ends] == [kind]

    run(told())


def test_a_request_too_large_for_a_batch_ends_it_and_is_the_only_one_at_fault() -> None:
    async def told() -> None:
        owner = Owner(replace(TOPIC, configs={"max.message.bytes": "200"}))
        before = owner.commits(1)
        many = {TopicPartition("flights", one): CommittedOffset(1) for one in range(9)}
        large = owner.owned.ask(CommitRequest("g", many))
        with pytest.raises(RecordTooLargeError, match=r"allowed are 200 \(max.message.bytes\)"):
            large.result()
        assert isinstance(before.exception(), CoordinatorNotAvailableError)
        assert owner.owned.is_over

    run(told())


def test_a_batch_of_the_largest_size_is_taken() -> None:
    async def told() -> None:
        records = [offset_record("g", FLIGHTS, CommittedOffset(1))]
        size = len(batch_of(records, 0))
        owner = Owner(replace(TOPIC, configs={"max.message.bytes": str(size)}))
        owner.commits(1)
        owner.appends.take()
        assert [len(one.batch) for one in owner.appends.taken] == [size]

    run(told())


def test_a_request_that_cannot_be_encoded_ends_it_and_is_the_only_one_at_fault() -> None:
    async def told() -> None:
        owner = Owner(offset_metadata_max_bytes=100_000)
        before = owner.commits(1)
        offset = CommittedOffset(1, metadata="x" * 40_000)
        large = owner.owned.ask(CommitRequest("g", {FLIGHTS: offset}))
        assert type(large.exception()) is UsageError
        assert isinstance(before.exception(), CoordinatorNotAvailableError)
        assert owner.owned.is_over

    run(told())


def test_a_timer_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        owner = Owner()
        waiting = owner.commits(1)
        monkeypatch.setattr(Shard, "tick", lambda *_: 1 / 0)
        with pytest.raises(CoordinatorNotAvailableError, match="ZeroDivisionError"):
            await asyncio.wait_for(waiting, 30)

    run(told())


@pytest.mark.parametrize("text", ["x" * 40_000, "\u20ac" * 11_000])
def test_an_id_too_long_for_a_record_is_refused_and_nothing_changes(text: str) -> None:
    async def told() -> None:
        owner = Owner()
        named = owner.owned.ask(CommitRequest(text, {FLIGHTS: CommittedOffset(1)}))
        joined = owner.owned.ask(JoinRequest("g", instance_id=text))
        for one in (named, joined):
            with pytest.raises(UsageError, match="bytes: allowed are 32730"):
                one.result()
        assert not owner.owned.is_over
        assert owner.fetches().result().offsets == {}
        short = owner.owned.ask(FetchRequest("x" * 32_730))
        assert short.result().error_code == 0

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


def test_its_end_answers_all_but_those_that_were_given_up() -> None:
    async def told() -> None:
        owner = Owner()
        given_up, waiting = owner.commits(1), owner.commits(2)
        given_up.cancel()
        owner.owned.end(NotCoordinatorError("one"))
        assert isinstance(waiting.exception(), NotCoordinatorError)

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
