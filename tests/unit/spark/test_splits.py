"""Splits: the vectors of Spark's KafkaOffsetRangeCalculatorSuite, and what must hold of any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.spark.reading.plan import ReadRange
from sparklog.spark.reading.splits import split_ranges

Spans = list[tuple[int, int]]


def ranges(*spans: tuple[int, int]) -> list[ReadRange]:
    """A range per partition, from 0 on."""
    return [ReadRange("t", "id", partition, *span) for partition, span in enumerate(spans)]


def cut(spans: Spans, least: int | None = None, most: int | None = None) -> Spans:
    return [(one.start, one.end) for one in split_ranges(ranges(*spans), least, most)]


class TestWithoutOptions:
    def test_keeps_the_ranges(self) -> None:
        assert cut([(1, 5), (3, 9)]) == [(1, 5), (3, 9)]

    def test_drops_empty_ranges(self) -> None:
        assert cut([(1, 5), (7, 7), (3, 9)]) == [(1, 5), (3, 9)]
        assert cut([(7, 7)], 5) == []
        assert cut([], 5, 5) == []


class TestMinPartitions:
    @pytest.mark.parametrize(
        ("spans", "least", "expected"),
        [
            ([(1, 5), (1, 21)], 4, [(1, 5), (1, 7), (7, 14), (14, 21)]),
            ([(1, 11)], 3, [(1, 4), (4, 7), (7, 11)]),
            ([(1, 2), (1, 1001)], 4, [(1, 2), (1, 334), (334, 667), (667, 1001)]),
            ([(1, 5), (1, 5)], 2, [(1, 5), (1, 5)]),
            ([(1, 5), (1, 5), (1, 5)], 2, [(1, 5), (1, 5), (1, 5)]),
            ([(1, 5)], 1, [(1, 5)]),
        ],
    )
    def test_cuts_the_larger_ranges(self, spans: Spans, least: int, expected: Spans) -> None:
        assert cut(spans, least) == expected

    @pytest.mark.parametrize(
        ("sizes", "expected"),
        [([10, 10, 1], [3, 3, 4, 3, 3, 4, 1]), ([1, 1, 10000], [1, 1, 2500, 2500, 2500, 2500])],
    )
    def test_shares_in_proportion(self, sizes: list[int], expected: list[int]) -> None:
        pieces = cut([(0, size) for size in sizes], 6)

        assert [end - start for start, end in pieces] == expected

    def test_rounds_halves_up(self) -> None:
        """As Math.round does: shares of 2.5 and 1.5 are 3 and 2 (Python rounds 2.5 to 2)."""
        assert cut([(0, 5), (0, 3)], 4) == [(0, 1), (1, 3), (3, 5), (0, 1), (1, 3)]

    def test_makes_no_empty_pieces(self) -> None:
        assert cut([(5, 7)], 10) == [(5, 6), (6, 7)]


class TestMaxRecords:
    def test_cuts_every_range_evenly(self) -> None:
        assert cut([(1, 40), (1, 50), (1, 60)], None, 20) == [
            *[(1, 20), (20, 40)],
            *[(1, 17), (17, 33), (33, 50)],
            *[(1, 20), (20, 40), (40, 60)],
        ]

    def test_comes_before_min_partitions(self) -> None:
        assert cut([(1, 40)], 4, 20) == [(1, 10), (10, 20), (20, 30), (30, 40)]

    def test_makes_enough_by_itself(self) -> None:
        assert cut([(1, 41)], 2, 10) == [(1, 11), (11, 21), (21, 31), (31, 41)]


class TestAny:
    @given(
        st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 500)), max_size=6),
        st.none() | st.integers(1, 40),
        st.none() | st.integers(20, 1000),
    )
    def test_cover_the_ranges_in_order(
        self, given_spans: Spans, least: int | None, most: int | None
    ) -> None:
        """Goal: no record is lost or read twice. Method: pieces laid end to end are the ranges."""
        whole = ranges(*[(start, start + size) for start, size in given_spans])
        pieces = split_ranges(whole, least, most)

        for one in whole:
            parts = [piece for piece in pieces if piece.partition == one.partition]
            assert [part.start for part in parts] == [one.start, *(p.end for p in parts)][
                : len(parts)
            ]
            assert (parts[-1].end if parts else one.start) == one.end
        assert all(piece.size > 0 for piece in pieces)
        assert most is None or all(piece.size <= most for piece in pieces)
