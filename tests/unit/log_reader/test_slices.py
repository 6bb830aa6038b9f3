import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.log_reader import slices
from sparklog.log_reader.slices import read_slices
from sparklog.model import Codec
from tests.partitions import DIRECTORY, Partition, batch, marker, outcome, partitions


def answers(partition: Partition, start: int = 0, end: int | None = None, **options: Any) -> Any:
    """What read_slices yields of [start, end)."""
    stop = partition.end if end is None else end
    pieces = partition.reader.slices(0, start, stop)
    return list(read_slices(partition.files, DIRECTORY, pieces, **options))


class TestReadSlices:
    @given(partitions(), st.data())
    def test_reads_every_range_as_a_naive_reader(
        self, partition: Partition, data: st.DataObject
    ) -> None:
        """Goal: no record is lost, doubled or changed, whatever segments, codecs and gaps there
        are. Method: any range, small windows and answers, against the records of a plain reader.
        """
        low = partition.log.log_start_offset
        start = data.draw(st.integers(low, partition.end))
        end = data.draw(st.integers(start, partition.end))
        window_bytes = data.draw(st.sampled_from((1, 61, 100, 200, 2**23)))
        rows_max = data.draw(st.sampled_from((1, 2, 5, 2**16)))

        found = partition.read(start, end, window_bytes=window_bytes, rows_max=rows_max)

        assert found == partition.expected(start, end)

    def test_makes_only_the_columns_asked_for(self) -> None:
        (found,) = answers(Partition().append(batch(1, 2)), columns=("offset", "value"))

        assert found.offset.to_pylist() == [0, 1]
        assert found.value.to_pylist() == [b"000", b"111"]
        assert found.key is None

    def test_yields_nothing_where_there_are_no_records(self) -> None:
        partition = Partition().append(marker(), 5, batch(3))

        assert answers(partition, 0, 6) == []
        assert answers(partition, 2, 4) == []
        assert [found.num_rows for found in answers(partition)] == [1]

    def test_passes_over_records_outside_the_range_without_looking_at_them(self) -> None:
        partition = Partition().append(batch(1), batch(2), batch(3))
        size = len(partition.bytes_of(partition.path())) // 3
        partition.flip_byte(partition.path(), 70).flip_byte(partition.path(), 2 * size + 70)

        assert partition.read(1, 2) == partition.expected(1, 2)

    def test_does_not_look_behind_the_end(self) -> None:
        partition = Partition().append(batch(1), batch(2))
        size = len(partition.bytes_of(partition.path())) // 2
        partition.zero(partition.path(), size, 2 * size)

        assert partition.read(0, 1, window_bytes=size) == partition.expected(0, 1)

    def test_reads_on_behind_a_segment_whose_last_records_are_gone(self) -> None:
        partition = Partition().append(batch(1), next_offset=9).append(batch(2))

        assert [record.offset for record in partition.read()] == [0, 9]

    def test_reads_a_segment_without_knowing_what_is_in_it(self) -> None:
        """As an import that has not walked its files says it."""
        unknown = {"record_count": None, "batch_count": None, "min_timestamp": None, "codec": None}
        partition = Partition().append(batch(1, 2), 3, batch(4), sealed=True, **unknown)

        assert partition.read() == partition.records
        assert partition.read(4) == partition.expected(4)


class TestAnswers:
    def test_hold_about_as_many_records_as_asked(self) -> None:
        partition = Partition().append(*(batch(1, 2, 3) for _ in range(10)))

        sizes = [found.num_rows for found in answers(partition, rows_max=10)]

        assert sizes == [12, 9, 9]

    def test_hold_a_batch_at_least(self) -> None:
        partition = Partition().append(batch(1, 2, 3), batch(4))

        assert [found.num_rows for found in answers(partition, rows_max=2)] == [3, 1]

    def test_hold_a_part_of_a_batch_that_has_far_more(self) -> None:
        partition = Partition().append(batch(1, 2, 3, 4, 5))
        found = answers(partition, rows_max=2)

        assert [one.num_rows for one in found] == [2, 2, 1]
        assert [one.offset.to_pylist() for one in found] == [[0, 1], [2, 3], [4]]
        assert partition.read(rows_max=2) == partition.records

    def test_hold_few_compressed_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        parts = [batch(n, n, codec=Codec.GZIP) for n in range(8)]
        partition = Partition().append(*parts)
        size = len(partition.bytes_of(partition.path())) // 8
        monkeypatch.setattr(slices, "COMPRESSED_BYTES_MAX", 2 * size + size // 2)

        sizes = [found.num_rows for found in answers(partition)]

        assert sizes == [4, 4, 4, 4]

    @pytest.mark.parametrize("codec", tuple(Codec)[1:])
    def test_hold_few_decompressed_bytes(
        self, codec: Codec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A few hundred bytes that come to a megabyte each are not opened all at once."""
        partition = Partition().append(*(batch(1, codec=codec, size=2**20) for _ in range(6)))
        monkeypatch.setattr(slices, "DECOMPRESSED_BYTES_MAX", 3 * 2**20)

        found = answers(partition, columns=("value",))

        assert [one.num_rows for one in found] == [1, 2, 1, 2]

    def test_of_a_damaged_group_come_as_far_as_it_is_sound(self) -> None:
        partition = Partition().append(*(batch(n, n) for n in range(9)))
        size = len(partition.bytes_of(partition.path())) // 9
        partition.flip_byte(partition.path(), 5 * size + 65)

        records, error = outcome(partition.reading())

        assert records == partition.expected(0, 10)
        assert error is not None
        assert (error.position, error.offset) == (5 * size, 10)


class TestMemory:
    def test_does_not_grow_with_the_range(self) -> None:
        partition = Partition().append(*(batch(n, size=4000) for n in range(64)))

        few, all_of_them = (self.peak(partition, end) for end in (8, 64))

        assert all_of_them < 2 * few

    def peak(self, partition: Partition, end: int) -> int:
        pieces = partition.reader.slices(0, 0, end)
        tracemalloc.start()
        for _ in read_slices(partition.files, DIRECTORY, pieces, window_bytes=16_384):
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak
