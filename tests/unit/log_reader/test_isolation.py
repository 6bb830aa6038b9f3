"""Which batches belong to aborted transactions."""

import pytest

from sparklog.log_reader.isolation import AbortedSpan, aborted_spans, committed, is_aborted
from sparklog.model import AbortedRange
from sparklog.record.batches import BatchTable
from sparklog.record.scan import scan_batches
from tests.compaction import keyed_batch, sent
from tests.edits import segment
from tests.partitions import log_bytes, marker


class TestSpans:
    def test_are_those_of_all_rows_in_the_numbering_of_the_log(self) -> None:
        rows = [
            segment(base_offset=0, aborted=(AbortedRange(8, 2, 3), AbortedRange(7, 0, 9))),
            segment(base_offset=10, aborted=(AbortedRange(7, -10, -1), AbortedRange(7, 5, 6))),
        ]

        assert aborted_spans(rows) == ((7, 0, 9), (7, 15, 16), (8, 2, 3))

    def test_of_no_transactions_are_none(self) -> None:
        assert aborted_spans([segment()]) == ()


class TestIsAborted:
    def found(self, *spans: AbortedSpan, shift: int = 0) -> list[bool]:
        pieces = [sent("a", "b"), sent("c", producer=8), marker(), keyed_batch("d"), sent("e")]
        batches = scan_batches(log_bytes(pieces, 100)).batches
        return [bool(one) for one in is_aborted(batches, shift, spans)]

    def test_a_batch_of_its_producer_within_the_span(self) -> None:
        assert self.found(AbortedSpan(7, 100, 103)) == [True, False, False, False, False]
        assert self.found(AbortedSpan(8, 100, 103)) == [False, True, False, False, False]

    @pytest.mark.parametrize(
        ("first", "last", "wanted"),
        [(100, 100, True), (99, 100, True), (101, 103, False), (98, 99, False)],
    )
    def test_begins_and_ends_with_the_span(self, first: int, last: int, wanted: bool) -> None:
        assert self.found(AbortedSpan(7, first, last))[0] is wanted

    def test_counts_in_the_offsets_of_the_log(self) -> None:
        assert self.found(AbortedSpan(7, 1100, 1103), shift=1000)[0]
        assert not any(self.found(AbortedSpan(7, 100, 103), shift=1000))

    def test_no_marker_and_nothing_outside_a_transaction(self) -> None:
        """Both are of the producer, or of none, and lie in the span."""
        assert self.found(AbortedSpan(7, 100, 110)) == [True, False, False, False, True]
        assert not any(self.found(AbortedSpan(-1, 100, 110)))

    def test_several_spans(self) -> None:
        spans = AbortedSpan(7, 100, 101), AbortedSpan(8, 102, 102), AbortedSpan(7, 105, 105)

        assert self.found(*spans) == [True, True, False, False, True]


class TestCommitted:
    def left(self, *aborted: AbortedRange) -> list[int]:
        """Base offsets of what is left of a file that begins with 100, the log's 1100."""
        batches = scan_batches(
            log_bytes([sent("a", "b"), keyed_batch("c"), sent("d")], 100)
        ).batches
        entry = segment(base_offset=1100, file_base_offset=100, next_offset=1104, aborted=aborted)
        return self.bases(committed(batches, entry))

    def bases(self, batches: BatchTable) -> list[int]:
        """Their numbers in the file."""
        return [int(one) for one in batches.base_offset]

    def test_leaves_out_what_the_row_of_the_segment_calls_aborted(self) -> None:
        assert self.left(AbortedRange(7, 0, 1)) == [102, 103]
        assert self.left(AbortedRange(7, 0, 3)) == [102]

    def test_leaves_everything_where_nothing_was_aborted(self) -> None:
        assert self.left() == [100, 102, 103]
