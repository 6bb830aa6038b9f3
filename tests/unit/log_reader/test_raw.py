"""Record batches as they lie in the files: whole, in order, with the offsets of the log."""

from typing import Any

import pytest

from sparklog.errors import CorruptRecordError
from sparklog.log_reader.raw import raw_batches
from sparklog.model import READ_COMMITTED, AbortedRange
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches
from tests.broker_files import TRANSACTIONAL
from tests.compaction import of_producer
from tests.partitions import DIRECTORY, Partition, batch, marker


def raw(
    partition: Partition, start: int, end: int, max_bytes: int = 2**30, **options: Any
) -> list[tuple[int, int]]:
    """The (first, last) offsets of the batches of [start, end), their checksums verified."""
    slices = partition.reader.slices(0, start, end)
    data = b"".join(raw_batches(partition.files, DIRECTORY, slices, max_bytes, **options))
    scan = scan_batches(data)
    assert (scan.problem, scan.end) == (None, len(data))
    verify_checksums(data, scan.batches)
    return [*zip(scan.batches.base_offset.tolist(), scan.batches.last_offset.tolist(), strict=True)]


@pytest.fixture
def log() -> Partition:
    """Two segments of three batches of two records; the second is not sealed."""
    two = [batch(1, 2), batch(3, 4), batch(5, 6)]
    return Partition().append(*two).append(*two)


ALL = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]


class TestRawBatches:
    @pytest.mark.parametrize("piece_bytes", [1, 100, 2**20])
    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [(0, 12, ALL), (3, 12, ALL[1:]), (7, 12, ALL[3:]), (0, 3, ALL[:2]), (1, 8, ALL[:4])],
    )
    def test_hold_the_offsets_asked_for(
        self,
        log: Partition,
        start: int,
        end: int,
        expected: list[tuple[int, int]],
        piece_bytes: int,
    ) -> None:
        assert raw(log, start, end, piece_bytes=piece_bytes) == expected

    def test_are_the_bytes_of_a_sealed_segment(self, log: Partition) -> None:
        slices = log.reader.slices(0, 0, 6)

        assert b"".join(raw_batches(log.files, DIRECTORY, slices, 2**30)) == log.bytes_of(
            log.path()
        )

    def test_are_cut_between_batches(self, log: Partition) -> None:
        size = len(log.bytes_of(log.path())) // 3

        counts = [
            len(raw(log, 0, 12, many)) for many in (1, size, 2 * size - 1, 3 * size, 4 * size)
        ]
        assert counts == [1, 1, 1, 3, 4]

    def test_go_on_behind_a_gap_at_the_end_of_a_segment(self, log: Partition) -> None:
        first, second = log.segments
        gap = Partition(log.files)
        gap.commit(segments=[first._replace(next_offset=8)])
        gap.commit(segments=[second._replace(base_offset=8, next_offset=14)])

        assert raw(gap, 4, 14) == [(4, 5), (8, 9), (10, 11), (12, 13)]

    @pytest.mark.parametrize("piece_bytes", [1, 2**20])
    def test_of_aborted_transactions_are_left_out(self, piece_bytes: int) -> None:
        lost = of_producer(batch(3, 4), attributes=TRANSACTIONAL)
        aborted = (AbortedRange(7, 2, 4),)
        log = Partition().append(batch(1, 2), lost, marker(), batch(5, 6), aborted=aborted)
        options: dict[str, Any] = {"piece_bytes": piece_bytes, "isolation": READ_COMMITTED}

        assert raw(log, 0, 7, **options) == [(0, 1), (4, 4), (5, 6)]
        assert raw(log, 3, 7, 1, **options) == [(4, 4)]

    def test_of_nothing_are_none(self, log: Partition) -> None:
        assert raw(log, 12, 12) == []

    def test_end_with_damage(self, log: Partition) -> None:
        size = len(log.bytes_of(log.path())) // 3
        log.zero(log.path(), size, 2 * size)
        slices = log.reader.slices(0, 0, 12)

        with pytest.raises(CorruptRecordError, match=r"\.log, position"):
            list(raw_batches(log.files, DIRECTORY, slices, 2**30))
