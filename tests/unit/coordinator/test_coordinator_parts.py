"""Timers, the placement of groups, and batches of a coordinator's records."""

from sys import getrefcount

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.config import TopicConfig
from sparklog.coordinator import timers
from sparklog.coordinator.batches import batch_of, bytes_of, cut, records_of
from sparklog.coordinator.classic.group_record import group_tombstone
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.consumer.consumer_records import member_tombstones
from sparklog.coordinator.placement import java_hash, partition_of
from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import CommittedOffset
from sparklog.coordinator.timers import Timers
from sparklog.errors import CorruptRecordError
from sparklog.model import TopicPartition
from sparklog.record.client_batch import check_client_batch
from sparklog.record.layout import BATCH_HEADER_SIZE
from tests.client_batches import NOW_MS, client_batch


class TestTimers:
    @given(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9) | st.none()), max_size=100),
        st.integers(0, 4),
    )
    def test_the_earliest_is_due_first(
        self, steps: list[tuple[str, int | None]], old_max: int
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(timers, "OLD_MAX", old_max)
            self.check(steps)

    def check(self, steps: list[tuple[str, int | None]]) -> None:
        timers: Timers[str] = Timers()
        naive: dict[str, int] = {}
        for key, deadline_ms in steps:
            if deadline_ms is None:
                timers.cancel(key)
                naive.pop(key, None)
            else:
                timers.set(key, deadline_ms)
                naive[key] = deadline_ms
            assert timers.next_ms == min(naive.values(), default=None)
        found = list(timers.due(5))
        due = {key: at for key, at in naive.items() if at <= 5}
        assert sorted(found) == sorted(due)
        assert [naive[key] for key in found] == sorted(due.values())
        assert timers.next_ms == min((at for at in naive.values() if at > 5), default=None)

    @pytest.mark.parametrize("step", [1, 0, -1])
    def test_deadlines_that_are_set_and_cancelled_take_no_memory(self, step: int) -> None:
        timers: Timers[str] = Timers()
        timers.set("a session", 1)
        for number in range(1_000):
            timers.set("a rebalance", 60_000 + step * number)
            timers.cancel("a rebalance")
            assert timers.next_ms == 1
        assert len(timers._heap) < 25


class TestPlacement:
    @pytest.mark.parametrize(
        ("text", "hashed"),
        [
            ("", 0),
            ("hello", 99162322),
            ("polygenelubricants", -(2**31)),
            ("\U0001f600", 1772899),
        ],
    )
    def test_the_hash_is_javas(self, text: str, hashed: int) -> None:
        assert java_hash(text) == hashed

    def test_the_least_hash_belongs_to_the_first_partition(self) -> None:
        assert partition_of("polygenelubricants", 50) == 0

    @given(st.text())
    def test_every_group_has_a_partition(self, group: str) -> None:
        assert 0 <= partition_of(group, 50) < 50

    @pytest.mark.parametrize(("size", "number"), [(256, 38), (32_767, 4), (32_768, 0)])
    def test_a_long_id_is_not_kept_and_one_longer_than_a_record_takes_not_even_read(
        self, size: int, number: int
    ) -> None:
        group = "ab" * (size // 2) + "c" * (size % 2)
        kept = getrefcount(group)
        assert (partition_of(group, 50), getrefcount(group)) == (number, kept)


RECORDS = st.lists(
    st.builds(Record, st.binary(max_size=300), st.none() | st.binary(max_size=300)), min_size=1
)
GONE = offset_record("g", TopicPartition("t", 0), None)
KEPT = offset_record("g", TopicPartition("t", 0), CommittedOffset(1))
NO_GROUP = group_tombstone("g")
NO_TARGET = member_tombstones("g", "m")[1]
"""Deleted together with its member."""


class TestBatches:
    @given(RECORDS)
    def test_records_come_back(self, records: list[Record]) -> None:
        batch = batch_of(records, NOW_MS)
        assert list(records_of([memoryview(batch)], 0, len(records))) == records

    @given(RECORDS)
    def test_a_leader_takes_the_batch(self, records: list[Record]) -> None:
        config = TopicConfig.parse({"cleanup.policy": "compact"})
        checked = check_client_batch(batch_of(records, NOW_MS), config, NOW_MS, 13)
        assert (checked.record_count, checked.max_timestamp) == (len(records), NOW_MS)

    @given(st.lists(st.sampled_from([GONE, KEPT, NO_GROUP, NO_TARGET])), st.integers(0, 400))
    def test_records_are_cut_only_in_front_of_deletions(
        self, records: list[Record], bytes_max: int
    ) -> None:
        found = cut(records, bytes_max)
        assert [one for batch in found for one in batch] == records
        gone = {GONE, NO_GROUP}
        assert all(batch[0] in gone for batch in found[1:])
        large = [one for one in found if len(batch_of(one, 0)) > bytes_max]
        assert all(gone.isdisjoint(one[1:]) for one in large)

    def test_those_that_one_batch_holds_are_not_cut(self) -> None:
        records = [GONE] * 5
        size = BATCH_HEADER_SIZE + bytes_of(records)
        assert cut(records, size) == [records]
        assert cut(records, size - 1) == [[GONE] * 4, [GONE]]

    def test_a_large_record_comes_back(self) -> None:
        records = [Record(b"k" * 1_000, b"v" * 100_000)]
        assert list(records_of([memoryview(batch_of(records, NOW_MS))], 0, 1)) == records

    def test_records_outside_the_offsets_are_left_out(self) -> None:
        records = [Record(bytes([number]), b"") for number in range(4)]
        batch = memoryview(batch_of(records, NOW_MS))
        assert list(records_of([batch], 1, 3)) == records[1:3]

    def test_a_record_without_a_key_is_left_out(self) -> None:
        batch = client_batch("a", "b", keys=[None, b"k"])
        assert list(records_of([memoryview(batch)], 0, 2)) == [Record(b"k", b"b")]

    def test_a_damaged_batch_is_told(self) -> None:
        batch = bytearray(batch_of([Record(b"key", b"value")], NOW_MS))
        batch[-3] ^= 1
        with pytest.raises(CorruptRecordError):
            list(records_of([memoryview(batch)], 0, 1))
