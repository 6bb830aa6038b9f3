"""A request to a group that would write more than a batch holds is refused, and writes nothing.

The targets of a consumer group are no request's: they take several batches. So do deletions.
"""

from collections.abc import Iterable, Sequence

import pytest

from sparklog.coordinator import shard
from sparklog.coordinator.batches import batch_of, cut
from sparklog.coordinator.classic.group_record import group_tombstone
from sparklog.coordinator.consumer import consumer_records
from sparklog.coordinator.consumer.consumer_records import (
    epoch_record,
    group_tombstones,
    member_tombstones,
)
from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import CommitRequest, CommittedOffset, Protocol
from sparklog.errors import ErrorCode
from sparklog.model import TopicPartition
from tests.consumer_language import Consumers, Reader, settle
from tests.group_language import FLIGHTS, GROUP, RANGE, Groups, stable


@pytest.mark.parametrize(("count", "metadata"), [(20, ""), (4, "m" * 200)])
def test_a_commit(count: int, metadata: str) -> None:
    groups = Groups(batch_bytes_max=500)
    ada = stable(groups, "ada")[0]
    offset = CommittedOffset(1, metadata=metadata)
    many = {TopicPartition("flights", number): offset for number in range(count)}
    found = groups.told(CommitRequest(GROUP, many, ada.generation, ada.member_id))
    assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert set(found.partitions.values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert groups.committed() == {}
    assert ada.commits(7) == 0


def test_a_commit_of_far_too_many_offsets_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[TopicPartition] = []

    def noting(_: str, offsets: Iterable[TopicPartition]) -> list[Record]:
        encoded.extend(offsets)
        return []

    monkeypatch.setattr(shard, "offset_records", noting)
    many = {TopicPartition("flights", number): CommittedOffset(1) for number in range(20)}
    found = Groups(batch_bytes_max=500).told(CommitRequest(GROUP, many))
    assert set(found.partitions.values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert encoded == []


def test_one_in_a_transaction() -> None:
    """Its offsets wait in the metadata, and every step of the transaction writes them again."""
    groups = Groups(batch_bytes_max=500)
    many = {TopicPartition("flights", number): CommittedOffset(1) for number in range(20)}
    found = groups.told(CommitRequest(GROUP, many, is_transactional=True))
    assert set(found.partitions.values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    few = CommitRequest(GROUP, {FLIGHTS: CommittedOffset(1)}, is_transactional=True)
    assert groups.told(few).partitions == {FLIGHTS: 0}
    assert groups.log == []


def test_the_assignments_of_a_leader() -> None:
    groups = Groups(batch_bytes_max=500)
    ada, bob = groups.member("ada"), groups.member("bob")
    ada.joins()
    bob.joins()
    groups.passes(9_000)
    other, leader = sorted((ada, bob), key=lambda one: one.leads)
    waiting = other.syncs()
    records = list(groups.log)
    large = leader.syncs({other.member_id: b"x" * 500})
    told = [leader.is_told_to(large), other.is_told_to(waiting)]
    assert [one.error_code for one in told] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert (groups.log, groups.state) == (records, "PreparingRebalance")


def test_a_static_member_that_comes_back_begins_a_rebalance() -> None:
    groups = Groups(batch_bytes_max=500)
    (ada,) = stable(groups, "ada", instance_id="first")
    records = list(groups.log)
    ada.member_id = ""
    ada.joins(protocols=(Protocol(RANGE.name, b"x" * 500),))
    assert ada.answer is not None
    assert (ada.answer.error_code, groups.state) == (0, "CompletingRebalance")
    assert groups.log == records


def test_a_subscription() -> None:
    group = Consumers({"batch_bytes_max": 1_000}, flights=1)
    (ada,) = group.readers("ada")
    records = list(group.log)
    many = tuple(f"topic-{number}" for number in range(60))
    for refused in (ada.beats(topic_names=many), group.reader("bob").joins(topic_names=many)):
        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert refused.message is not None
        assert "500 bytes" in refused.message
    assert group.log == records
    assert ada.beats().error_code == 0
    assert ada.asks(epoch=-1, topic_names=many).error_code == 0, "who leaves may say anything"


def test_of_far_too_many_names_no_record_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Consumers({"batch_bytes_max": 1_000}, flights=1)
    monkeypatch.delattr(consumer_records, "member_record")
    refused = group.reader("ada").joins(topic_names=("x" * 501,))
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def grown(most: int) -> tuple[Consumers, list[Reader], list[list[Record]]]:
    """A group whose topic has grown, its members, and the records of this in batches."""
    group = Consumers(flights=10)
    readers = group.readers(*"abcdefghij")
    start = len(group.log)
    group.has(flights=100)
    readers[0].asks()
    batches = cut(group.log[start:], most)
    assert [record for batch in batches for record in batch] == group.log[start:]
    del group.log[start:]
    return group, readers, batches


def test_the_targets_of_a_large_group_take_several_batches() -> None:
    _, _, batches = grown(600)
    assert len(batches) > 1
    assert max(len(batch_of(one, 0)) for one in batches) <= 600


def test_if_only_some_targets_are_in_the_log_they_are_made_anew() -> None:
    group, readers, batches = grown(600)
    group.log += batches[0]
    group.restarts()
    settle(*readers)
    assert sorted(number for one in readers for number in one.numbers) == list(range(100))


def test_one_member_gets_no_more_partitions_than_a_record_may_have() -> None:
    group = Consumers({"batch_bytes_max": 2_000}, flights=2)
    (ada,) = group.readers("ada")
    start = len(group.log)
    group.has(flights=100)
    refused = ada.asks()
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "400 bytes" in str(refused.message)
    assert group.group.state == "Assigning"
    (bob,) = group.readers("bob")
    settle(ada, bob)
    assert sorted(ada.numbers + bob.numbers) == list(range(100))
    assert all(len(batch_of(one, 0)) <= 2_000 for one in cut(group.log[start:], 2_000))


@pytest.mark.parametrize(
    "one",
    [
        [group_tombstone("g" * 100)],
        group_tombstones("g" * 100, []),
        [*member_tombstones("g", "m" * 100), epoch_record("g", 1, 0)],
    ],
)
def test_deletions_take_several_batches(one: Sequence[Record]) -> None:
    batches = cut([*one] * 20, 1_000)
    assert [record for batch in batches for record in batch] == [*one] * 20
    assert max(len(batch_of(batch, 0)) for batch in batches) <= 1_000
    assert {len(batch) % len(one) for batch in batches} == {0}
