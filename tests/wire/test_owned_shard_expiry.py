"""A shard that an instance owns removes expired offsets only if it knows the last commits."""

import asyncio

import pytest

from sparklog.coordinator import shard
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.requests import CommitRequest, CommittedOffset
from sparklog.errors import CoordinatorNotAvailableError, StorageError, UnexpectedAppendOffsetError
from tests.wire.owning import END, FLIGHTS, Owner, landed, run


async def expiring() -> Owner:
    """An owner with an offset whose time is over."""
    owner = Owner(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=10)
    owner.commits(1)
    await owner.appends.land(landed(END))
    owner.appends.taken.clear()
    owner.clock.advance(2_000)
    owner.log_end = END + 1
    return owner


async def tombstone(owner: Owner, count: int = 1) -> int | None:
    """Where the log must end for the tombstones to be appended."""
    async with asyncio.timeout(30):
        while len(owner.appends.taken) < count:
            owner.clock.advance(1)
            await asyncio.sleep(0.001)
            owner.appends.take()
    return owner.appends.taken[-1].end_offset


def test_they_are_removed_where_the_log_ends() -> None:
    async def told() -> None:
        owner = await expiring()
        assert await tombstone(owner) == END + 1
        await owner.appends.land(landed(END + 1))
        assert owner.fetches().result().offsets == {}

    run(told())


def test_records_in_flight_come_first_and_grow_no_more() -> None:
    async def told() -> None:
        owner = await expiring()
        owner.owned.ask(CommitRequest("h", {FLIGHTS: CommittedOffset(3)}))
        await asyncio.sleep(0.05)
        owner.owned.ask(CommitRequest("h", {FLIGHTS: CommittedOffset(4)}))
        owner.appends.take()
        assert [one.end_offset for one in owner.appends.taken] == [None, END + 2, None]

    run(told())


def test_one_that_somebody_else_has_committed_since_stays() -> None:
    async def told() -> None:
        owner = await expiring()
        fresh = CommittedOffset(7, committed_ms=owner.clock.now_ms())
        owner.others[END + 1] = [offset_record("g", FLIGHTS, fresh)]
        owner.log_end = END + 2
        owner.may_read.clear()
        await asyncio.sleep(0.05)
        owner.fetches()
        await asyncio.sleep(0.05)
        owner.may_read.set()
        assert await owner.offset(END + 2) == 7
        owner.appends.take()
        assert not owner.appends.taken

    run(told())


def test_one_that_lies_between_own_batches_is_read_first() -> None:
    async def told() -> None:
        owner = Owner(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=10)
        owner.commits(1)
        await owner.appends.land(landed(END))
        fresh = CommittedOffset(7, committed_ms=owner.clock.now_ms() + 2_000)
        owner.others[END + 1] = [offset_record("g", FLIGHTS, fresh)]
        owner.may_read.clear()
        owner.owned.ask(CommitRequest("h", {FLIGHTS: CommittedOffset(3)}))
        await owner.appends.land(landed(END + 2))
        owner.appends.taken.clear()
        owner.log_end = END + 1
        owner.clock.advance(2_000)
        await asyncio.sleep(0.05)
        owner.appends.take()
        assert not owner.appends.taken
        owner.may_read.set()
        assert await tombstone(owner) == END + 3  # that of group h
        await owner.appends.land(landed(END + 3))
        assert await owner.offset(END + 4) == 7

    run(told())


def test_a_commit_that_comes_between_ends_it() -> None:
    async def told() -> None:
        owner = await expiring()
        await tombstone(owner)
        await owner.appends.land(UnexpectedAppendOffsetError("it ends elsewhere"))
        assert [type(one) for one in owner.ends] == [CoordinatorNotAvailableError]

    run(told())


async def steps(owner: Owner) -> None:
    """Let the timer of the next step come."""
    owner.clock.advance(1)
    await asyncio.sleep(0.05)
    owner.appends.take()


def test_many_go_in_batches_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        monkeypatch.setattr(shard, "EXPIRED_MAX", 1)
        owner = await expiring()
        assert await tombstone(owner) == END + 1
        await steps(owner)
        assert len(owner.appends.taken) == 1
        await owner.appends.land(landed(END + 1))
        assert await tombstone(owner, 2) == END + 2  # that of the group
        await owner.appends.land(landed(END + 2))
        await steps(owner)
        assert len(owner.appends.taken) == 2
        assert not owner.ends

    run(told())


def test_those_that_a_commit_has_renewed_between_two_batches_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def told() -> None:
        monkeypatch.setattr(shard, "EXPIRED_MAX", 1)
        owner = await expiring()
        await tombstone(owner)
        fresh = CommittedOffset(7, committed_ms=owner.clock.now_ms())
        owner.others[END + 2] = [offset_record("g", FLIGHTS, fresh)]
        owner.log_end = END + 3
        await owner.appends.land(landed(END + 1))
        await steps(owner)
        assert len(owner.appends.taken) == 1
        assert await owner.offset(END + 3) == 7

    run(told())


@pytest.mark.parametrize("is_over", [True, False])
def test_a_log_that_cannot_be_read_ends_it(is_over: bool) -> None:
    async def told() -> None:
        owner = await expiring()
        owner.log_end = StorageError("no")
        if is_over:
            owner.owned.end(StorageError("before"))
        await asyncio.sleep(0.05)
        assert [one.message for one in owner.ends] == ["before" if is_over else "no"]
        assert not owner.appends.taken

    run(told())
