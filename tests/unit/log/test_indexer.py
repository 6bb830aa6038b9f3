import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.log.indexer import Indexer, Indexes
from sparklog.log.offset_index import OffsetIndex
from sparklog.log.time_index import TimeIndex
from sparklog.record.batches import BatchTable
from tests.log_language import batch_lists, table
from tests.naive import log as naive
from tests.naive.log import Batch


def indexes_of(batches: list[Batch], base: int = 0, interval: int = 4096) -> Indexes:
    indexer = Indexer(base, interval)
    indexer.append(table(batches, base))
    return indexer.finish()


def offset_entries(indexes: Indexes) -> list[tuple[int, int]]:
    offsets, positions = OffsetIndex(indexes.offset_index, 0).entries()
    return list(zip(offsets.tolist(), positions.tolist(), strict=True))


def time_entries(indexes: Indexes) -> list[tuple[int, int]]:
    times, offsets = TimeIndex(indexes.time_index, 0).entries()
    return list(zip(times.tolist(), offsets.tolist(), strict=True))


class TestOffsetEntries:
    def test_the_first_batch_has_none(self) -> None:
        assert offset_entries(indexes_of([Batch(0, 1, 1_000_000)])) == []

    def test_pairs_the_last_offset_with_the_start_of_the_batch(self) -> None:
        assert offset_entries(indexes_of([Batch(6, 1, 5000), Batch(9, 2, 100)])) == [(9, 5000)]

    def test_needs_more_than_the_interval_since_the_last_indexed_start(self) -> None:
        batches = [Batch(n, 1, 2048) for n in range(7)]

        assert offset_entries(indexes_of(batches)) == [(3, 3 * 2048), (6, 6 * 2048)]

    def test_an_interval_of_zero_indexes_every_batch_but_the_first(self) -> None:
        batches = [Batch(n, 1, 61) for n in range(3)]

        assert offset_entries(indexes_of(batches, interval=0)) == [(1, 61), (2, 122)]

    def test_are_relative_to_the_base_offset_of_the_file(self) -> None:
        indexes = indexes_of([Batch(101, 1, 5000), Batch(102, 1, 100)], base=100)

        assert indexes.offset_index == bytes.fromhex("00000002 00001388")


class TestTimeEntries:
    def test_the_largest_timestamp_is_added_at_the_end(self) -> None:
        assert time_entries(indexes_of([Batch(0, 7, 100), Batch(3, 9, 100)])) == [(9, 3)]

    def test_point_to_the_earliest_batch_that_holds_the_largest_timestamp(self) -> None:
        batches = [Batch(0, 7, 5000), Batch(1, 9, 5000), Batch(2, 9, 5000), Batch(3, 8, 5000)]

        assert time_entries(indexes_of(batches)) == [(9, 1)]

    def test_equal_timestamps_add_nothing(self) -> None:
        batches = [Batch(n, 7, 5000) for n in range(4)]

        assert time_entries(indexes_of(batches)) == [(7, 0)]

    def test_a_file_without_timestamps_has_none(self) -> None:
        batches = [Batch(n, -1, 5000) for n in range(4)]

        assert indexes_of(batches).time_index == b""

    def test_the_largest_timestamp_of_all_is_no_overflow(self) -> None:
        batches = [Batch(0, 2**63 - 1, 5000), Batch(1, 5, 5000)]

        assert time_entries(indexes_of(batches)) == [(2**63 - 1, 0)]


class TestAppend:
    @example(batches=[], interval=4096, cuts=[], base=0)
    @given(
        batch_lists(),
        st.sampled_from((0, 1, 61, 4096, 20_000, 2**31 - 1)),
        st.lists(st.integers(0, 40), max_size=4).map(sorted),
        st.sampled_from((0, 1, 2**62)),
    )
    def test_agrees_with_the_rule_batch_by_batch(
        self, batches: list[Batch], interval: int, cuts: list[int], base: int
    ) -> None:
        """Goal: the vectorised rule is Kafka's. Method: any batches, appended in any pieces."""
        batches = [batch._replace(last_offset=base + batch.last_offset) for batch in batches]
        whole = table(batches, base)
        indexer = Indexer(base, interval)
        for start, stop in zip([0, *cuts], [*cuts, None], strict=True):
            indexer.append(whole.slice(start, stop))

        assert indexer.finish() == naive.index_files(batches, base, interval)

    def test_of_no_batches_changes_nothing(self) -> None:
        indexer = Indexer(0)
        indexer.append(table([Batch(3, 9, 5000)]))

        indexer.append(BatchTable.empty())

        assert (indexer.bytes, indexer.newest) == (5000, (9, 3))

    def test_looks_at_sizes_not_at_positions(self) -> None:
        indexer = Indexer(0)
        for batch in (Batch(0, 1, 5000), Batch(1, 1, 5000)):
            indexer.append(table([batch]))

        assert offset_entries(indexer.finish()) == [(1, 5000)]


class TestFinish:
    def test_may_be_called_before_the_segment_ends(self) -> None:
        indexer = Indexer(0)
        indexer.append(table([Batch(0, 7, 5000)]))

        early = indexer.finish()
        indexer.append(table([Batch(1, 9, 5000)], base=1))

        assert time_entries(early) == [(7, 0)]
        assert time_entries(indexer.finish()) == [(9, 1)]


class TestIsFull:
    @pytest.mark.parametrize(("index_bytes", "full"), ((31, False), (24, False), (23, True)))
    def test_keeps_one_slot_of_the_time_index_free(self, index_bytes: int, full: bool) -> None:
        assert Indexer(0, index_bytes_max=index_bytes).is_full is full

    def test_when_the_offset_index_has_no_slot_left(self) -> None:
        indexer = Indexer(0, index_bytes_max=40)
        indexer.append(table([Batch(n, -1, 5000) for n in range(5)]))
        before_the_last = indexer.is_full
        indexer.append(table([Batch(5, -1, 5000)], base=5))

        assert not before_the_last
        assert indexer.is_full


class TestRoom:
    @given(
        batch_lists(),
        batch_lists(base=100_000),
        st.sampled_from((0, 61, 4096)),
        st.integers(0, 200),
    )
    def test_is_how_many_batches_a_careful_writer_appends(
        self, first: list[Batch], more: list[Batch], interval: int, index_bytes: int
    ) -> None:
        """Goal: a roll comes exactly in time. Method: append one by one, asking before each."""
        indexer = Indexer(0, interval, index_bytes)
        indexer.append(table(first))
        whole = table(more, base=100_000)
        told = indexer.room(whole)
        count = 0
        while count < len(more) and not indexer.is_full:
            indexer.append(whole.slice(count, count + 1))
            count += 1

        assert told == count

    def test_changes_nothing(self) -> None:
        indexer = Indexer(0, index_bytes_max=24)
        whole = table([Batch(n, n, 5000) for n in range(5)])

        assert [indexer.room(whole), indexer.room(whole)] == [2, 2]
        assert indexer.bytes == 0
        assert np.array_equal(indexer.preview(whole).batches, [1, 2, 3, 4])
