"""isolation.level: whether a reader sees records of transactions that were aborted.

A segment's row has the aborted transactions that reach into it, each as a producer id and a span of
offsets. A batch belongs to one of them if it is transactional, of that producer, begins in the
span, and is no control batch. Kafka's default is read_uncommitted.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.model import AbortedRange, SegmentEntry
from sparklog.record.batches import BatchTable


class AbortedSpan(NamedTuple):
    """An aborted transaction: its producer, and its first and last offset in the log."""

    producer_id: int
    first: int
    last: int


def aborted_spans(segments: Iterable[SegmentEntry]) -> tuple[AbortedSpan, ...]:
    """Return the aborted transactions in the rows of a partition, each once."""
    spans = {
        AbortedSpan(
            one.producer_id, entry.base_offset + one.first_delta, entry.base_offset + one.last_delta
        )
        for entry in segments
        for one in entry.aborted
    }
    return tuple(sorted(spans))


def hiding(entry: SegmentEntry, span: AbortedSpan) -> SegmentEntry:
    """Return the row of a segment with one more aborted transaction, which it may have already."""
    base = entry.base_offset
    aborted = AbortedRange(span.producer_id, span.first - base, span.last - base)
    return entry._replace(aborted=tuple(sorted({*entry.aborted, aborted})))


def is_aborted(batches: BatchTable, shift: int, spans: Sequence[AbortedSpan]) -> NDArray[np.bool_]:
    """Return, for each batch, whether it belongs to one of the aborted transactions.

    `shift` is added to the file's offsets to get the log's.
    """
    found = np.zeros(len(batches), np.bool_)
    offsets = batches.base_offset + shift
    for span in spans:
        found |= (batches.producer_id == span.producer_id) & (
            (offsets >= span.first) & (offsets <= span.last)
        )
    return found & batches.is_transactional & ~batches.is_control


def committed(batches: BatchTable, entry: SegmentEntry) -> BatchTable:
    """Return the batches of a segment, in the file's numbering, without aborted transactions'."""
    if not entry.aborted:
        return batches
    return batches.take(~is_aborted(batches, entry.shift, aborted_spans([entry])))
