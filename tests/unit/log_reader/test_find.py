"""Where in the files an offset is, against the batches as they were put there."""

import pytest

from sparklog.errors import OffsetOutOfRangeError
from sparklog.log.fast_lookup import FoundBatch
from sparklog.log.names import INDEX_SUFFIX
from sparklog.log_reader.find import find_offset
from tests.partitions import Partition, batch, marker


def place(partition: Partition, offset: int) -> FoundBatch | None:
    return find_offset(partition.reader, 0, offset)


def found(partition: Partition, offset: int) -> tuple[int, int, int, int]:
    """Offset, timestamp and the batch's offsets."""
    answer = place(partition, offset)
    assert answer is not None
    return answer.offset, answer.timestamp, answer.base_offset, answer.last_offset


class TestFindOffset:
    def test_is_the_batch_that_holds_the_offset(self) -> None:
        partition = Partition().append(batch(1, 5), batch(2, 9)).append(batch(3))
        size = len(partition.bytes_of(partition.path())) // 2
        answer = place(partition, 3)

        assert [found(partition, n)[:2] for n in range(5)] == [
            (0, 1),
            (1, 5),
            (2, 2),
            (3, 9),
            (4, 3),
        ]
        assert answer is not None
        assert (answer.position, answer.size) == (size, size)
        assert (answer.base_offset, answer.last_offset) == (2, 3)
        assert answer.segment.log_path == partition.segments[0].log_path

    def test_in_a_gap_is_the_next_batch(self) -> None:
        partition = Partition().append(batch(1), 5, batch(2)).append(4, batch(3))

        assert found(partition, 2) == (6, 2, 6, 6)
        assert found(partition, 8) == (11, 3, 11, 11)

    def test_of_a_marker_has_no_record(self) -> None:
        assert found(Partition().append(marker(), batch(1)), 0) == (-1, -1, 0, 0)

    def test_behind_the_last_record_is_nowhere(self) -> None:
        written = Partition().append(batch(1))
        partition = Partition(written.files)
        partition.commit(segments=[written.segments[0]._replace(next_offset=6)])

        assert place(partition, 3) is None

    def test_is_nowhere_when_the_segments_are_gone(self) -> None:
        partition = Partition().append(batch(1))
        keys = [entry.key for entry in partition.segments]
        partition.commit(remove=keys, removed_ms=1)

        assert place(partition, 0) is None

    def test_is_found_without_an_index_in_a_later_window(self) -> None:
        partition = Partition().append(*(batch(n, size=90_000) for n in range(5)))
        partition.remove(partition.path(INDEX_SUFFIX))

        with pytest.warns(UserWarning, match="the file is missing"):
            assert found(partition, 4) == (4, 4, 4, 4)

    def test_outside_the_log_is_an_error(self) -> None:
        partition = Partition().append(batch(1, 2)).delete_records(1)

        for offset in (0, 2):
            with pytest.raises(OffsetOutOfRangeError):
                place(partition, offset)
