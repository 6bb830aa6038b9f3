import pytest

from sparklog.log.placement import count_in_place, file_next_offset, is_dense
from sparklog.model import SegmentEntry
from sparklog.record.batches import BatchTable
from tests.log_language import table
from tests.naive.log import Batch

GZIP = 1


def segment(base: int = 100, span: int = 10, records: int | None = 10) -> SegmentEntry:
    """A segment whose file counts from 5."""
    return SegmentEntry(
        partition=0,
        base_offset=base,
        next_offset=base + span,
        file_base_offset=5,
        log_path="t-0/a.log",
        log_bytes=1,
        record_count=records,
        created_ms=0,
    )


def spans(*pairs: tuple[int, int], **fields: int) -> BatchTable:
    """Batches of (first, last) offsets."""
    return BatchTable.concat(
        [table([Batch(last, 0, 61)], first, **fields) for first, last in pairs]
    )


class TestIsDense:
    @pytest.mark.parametrize(("records", "dense"), ((10, True), (9, False), (None, False)))
    def test_every_offset_has_its_record(self, records: int | None, dense: bool) -> None:
        assert is_dense(segment(records=records)) is dense


class TestFileNextOffset:
    def test_counts_as_the_file_does(self) -> None:
        assert file_next_offset(segment()) == 15


class TestCountInPlace:
    @pytest.mark.parametrize(
        ("batches", "due", "count"),
        (
            (((5, 6), (7, 7), (8, 14)), 5, 3),
            (((7, 7), (8, 14)), 7, 2),
            (((7, 7), (8, 14)), None, 2),
            (((7, 7),), 5, 0),
            (((5, 6), (8, 9)), 5, 1),
            (((5, 6), (6, 9)), 5, 1),
            (((5, 6), (7, 15)), 5, 1),
            (((5, 6), (7, 6)), 5, 1),
            (((4, 6),), None, 0),
            (((-(2**63), -(2**63)),), None, 0),
            (((5, 2**63 - 1), (7, 7)), 5, 0),
            ((), 5, 0),
        ),
    )
    def test_without_gaps_each_begins_where_the_last_ended(
        self, batches: tuple[tuple[int, int], ...], due: int | None, count: int
    ) -> None:
        assert count_in_place(spans(*batches), segment(), due) == count

    @pytest.mark.parametrize(
        ("batches", "due", "count"),
        (
            (((5, 6), (9, 9), (12, 14)), 5, 3),
            (((7, 7), (12, 14)), None, 2),
            (((6, 6),), 7, 0),
            (((5, 6), (9, 9), (9, 14)), 5, 1),
            (((5, 6), (7, 9), (9, 14)), 5, 2),
            (((5, 6), (9, 9), (12, 15)), 5, 2),
        ),
    )
    def test_with_gaps_each_begins_behind_the_last(
        self, batches: tuple[tuple[int, int], ...], due: int | None, count: int
    ) -> None:
        assert count_in_place(spans(*batches), segment(records=8), due) == count

    @pytest.mark.parametrize(
        ("batches", "count"), (((8, 14), 2), ((5, 6), 2), ((8, 8), 0), ((8, 15), 1), ((8, 7), 0))
    )
    def test_of_a_wrapper_only_its_last_offset_is_held_against_others(
        self, batches: tuple[int, int], count: int
    ) -> None:
        wrappers = spans(*((last, last) for last in batches), magic=1, attributes=GZIP)

        assert count_in_place(wrappers, segment(), 5) == count
