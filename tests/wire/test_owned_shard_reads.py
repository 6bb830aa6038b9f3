"""A shard that an instance owns reads the records of others before it answers."""

import asyncio

import pytest

from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import CommitRequest, CommittedOffset
from sparklog.errors import CoordinatorNotAvailableError, NotCoordinatorError
from sparklog.model import TopicPartition
from tests.waiting import turns_until
from tests.wire.owning import END, FLIGHTS, Owner, landed, offset_of, run

OLD = TopicPartition("flights-old", 0)


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
        await turns_until(lambda: bool(owner.reads))
        owner.owned.end(NotCoordinatorError("one"))
        assert not await waits
        await asyncio.sleep(0)
        assert owner.reads_cancelled == 1
        assert [error.message for error in owner.ends] == ["one"]

    run(told())
