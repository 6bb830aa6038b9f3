"""Aborted transactions on the rows of the segments they reach into."""

from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.interop.transactions import Span, spans_of, spread
from sparklog.model import SegmentEntry

OFFSETS = st.integers(0, 20)


def entry(base: int, end: int) -> SegmentEntry:
    return SegmentEntry(
        partition=0,
        base_offset=base,
        next_offset=end,
        file_base_offset=base,
        log_path=f"{base}.log",
        log_bytes=1,
        created_ms=0,
    )


class TestSpread:
    @given(st.sets(OFFSETS, min_size=2), st.lists(st.tuples(OFFSETS, OFFSETS), max_size=6))
    @example({0, 5, 7, 9}, [(2, 7), (5, 5), (6, 6), (9, 12), (0, 20)])
    def test_every_row_has_what_reaches_into_it(
        self, cuts: set[int], ranges: list[tuple[int, int]]
    ) -> None:
        """Goal: no row misses a transaction. Method: all pairs; between every second pair of cuts
        there is a gap.
        """
        ordered = sorted(cuts)
        entries = [entry(*pair) for pair in zip(ordered[::2], ordered[1::2], strict=False)]
        spans = [Span(number, min(pair), max(pair)) for number, pair in enumerate(ranges)]

        for row, plain in zip(spread(entries, spans), entries, strict=True):
            expected = [
                span
                for span in spans
                if span.first < plain.next_offset and span.last >= plain.base_offset
            ]
            assert sorted(spans_of(row)) == sorted(expected)

    def test_without_any_the_rows_stay(self) -> None:
        assert spread([entry(0, 5)], [])[0] == entry(0, 5)
