"""A shard that an instance owns: answers wait for records; an append that fails ends it."""

import asyncio
from dataclasses import replace

import pytest

from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.requests import (
    CommitRequest,
    CommittedOffset,
    DeleteGroupRequest,
    FetchRequest,
    JoinRequest,
    Protocol,
)
from sparklog.coordinator.shard import Shard
from sparklog.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    NotCoordinatorError,
    RecordTooLargeError,
    SparklogError,
    UsageError,
)
from sparklog.model import TopicPartition
from sparklog.record.batches import byte_view
from sparklog.record.scan import scan_batches
from tests.wire.owning import END, FLIGHTS, TOPIC, Owner, landed, run


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


def test_a_group_with_more_offsets_than_a_batch_holds_is_deleted_in_several() -> None:
    async def told() -> None:
        owner = Owner(replace(TOPIC, configs={"max.message.bytes": "200"}))
        for number in range(10):
            offset = {TopicPartition("flights", number): CommittedOffset(1)}
            owner.owned.ask(CommitRequest("g", offset))
            await owner.appends.land(landed(END + number))
        owner.appends.taken.clear()
        deleted = owner.owned.ask(DeleteGroupRequest("g"))
        owner.appends.take()
        sizes = [len(one.batch) for one in owner.appends.taken]
        assert len(sizes) > 1
        assert max(sizes) <= 200
        end = END + 10
        for one in owner.appends.taken:
            assert not deleted.done()
            await owner.appends.land(landed(end))
            end += scan_batches(byte_view(one.batch)).batches.record_count[0]
        assert (deleted.result(), end) == (0, END + 21)
        assert not owner.ends

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
        owner = Owner()
        before = owner.commits(1)
        large = owner.commits(2**63)
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
        assigned = owner.owned.ask(JoinRequest("g", protocols=(Protocol(text, b""),)))
        for one in (named, joined, assigned):
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
