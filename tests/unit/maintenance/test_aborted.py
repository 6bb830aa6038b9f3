"""Which batches and records belong to aborted transactions."""

import numpy as np
import pytest

from sparklog.maintenance.aborted import AbortedSpan, aborted_spans, is_aborted, without_aborted
from sparklog.maintenance.superseded import KeySource, key_records
from sparklog.model import AbortedRange
from sparklog.record.scan import scan_batches
from tests.compaction import Compacted, keyed_batch, of_producer
from tests.manifests import segment
from tests.partitions import DIRECTORY, Piece, log_bytes, marker

TRANSACTIONAL = 16


def sent(*texts: str, producer: int = 7) -> Piece:
    """A batch within a transaction."""
    return of_producer(keyed_batch(*texts), producer, attributes=TRANSACTIONAL)


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


class TestWithoutAborted:
    def left(self, log: Compacted, *spans: AbortedSpan) -> list[tuple[int, bytes | None]]:
        """Offsets and keys of the last segment's records that are left."""
        entry = log.partition.segments[-1]
        source = KeySource(
            files=log.partition.files, directory=DIRECTORY, entry=entry, slot=0, segment=0, bits=0
        )
        records = key_records(source)
        found: list[tuple[int, bytes | None]] = []
        for some in without_aborted(log.partition.files, DIRECTORY, entry, spans, records):
            assert some.num_rows == len(some.key) == len(some.offset)
            found += zip(some.offset.to_pylist(), some.key.to_pylist(), strict=True)
        return found

    def test_leaves_out_the_records_of_aborted_batches(self) -> None:
        log = Compacted().put("x=0").add(keyed_batch("a"), sent("b", "c"), marker(), sent("d"))

        assert self.left(log, AbortedSpan(7, 2, 4)) == [(1, b"a"), (5, b"d")]
        assert self.left(log, AbortedSpan(7, 1, 9)) == [(1, b"a")]
        assert self.left(log) == [(1, b"a"), (2, b"b"), (3, b"c"), (5, b"d")]

    def test_may_leave_nothing(self) -> None:
        log = Compacted().add(sent("a", "b"), marker())

        assert self.left(log, AbortedSpan(7, 0, 2)) == []

    def test_has_offsets_in_order(self) -> None:
        log = Compacted().add(sent("a"), sent("b"), keyed_batch("c"), sent("d"))
        offsets = [offset for offset, _ in self.left(log, AbortedSpan(7, 1, 1))]

        assert offsets == np.sort(offsets).tolist() == [0, 2, 3]
