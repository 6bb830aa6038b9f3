"""Finds the transactions in the batches of a partition: aborted ones, and open ones.

    data batches, transactional   the producer's transaction is open from the first of them on
    control batch, one marker     COMMIT or ABORT ends it

An aborted transaction reaches from its first batch to its marker. A transaction without a marker is
open; its producer and its first offset are kept, and a later import continues with them.

The broker may have deleted the marker before the later import. The broker's producer snapshots tell
which transactions are open; any other has ended, with an unknown outcome. Its records count as
committed: so a broker treats all records without a known abort.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sparklog.metadata.state.edit import OpenTransaction
from sparklog.model import AbortedRange, SegmentEntry
from sparklog.record.batches import BatchTable
from sparklog.record.markers import ABORT, COMMIT

MarkerOf = Callable[[BatchTable], int]
"""Returns the type of the control record in a table of one batch: ABORT, COMMIT or another."""


class Span(NamedTuple):
    """An aborted transaction, in offsets of the log; `last` is its marker's offset."""

    producer_id: int
    first: int
    last: int


class Transactions:
    """Follows the transactions of one partition; `open` maps producer id to first offset."""

    def __init__(self, open_at: Iterable[OpenTransaction] = ()) -> None:
        self.open = {one.producer_id: one.first_offset for one in open_at}
        self.aborted: list[Span] = []

    def __len__(self) -> int:
        return len(self.open) + len(self.aborted)

    @property
    def unended(self) -> tuple[OpenTransaction, ...]:
        """The open transactions, by producer."""
        return tuple(OpenTransaction(*one) for one in sorted(self.open.items()))

    def add(self, batches: BatchTable, marker_of: MarkerOf) -> None:
        """Take the next batches of the log.

        A broker's cleaner may leave a control batch without its marker: then no record of the
        transaction is left (ProducerAppendInfo.append).
        """
        is_emptied = batches.is_control & (batches.record_count == 0)
        rows = np.flatnonzero(batches.is_transactional & ~is_emptied)
        producers = batches.producer_id[rows].tolist()
        offsets = batches.base_offset[rows].tolist()
        control = batches.is_control[rows].tolist()
        for row, producer, offset, is_control in zip(
            rows.tolist(), producers, offsets, control, strict=True
        ):
            if is_control:
                self._end(producer, offset, marker_of(batches.slice(row, row + 1)))
            else:
                self.open.setdefault(producer, offset)

    def _end(self, producer: int, offset: int, kind: int) -> None:
        if kind not in (ABORT, COMMIT) or producer not in self.open:
            return
        first = self.open.pop(producer)
        if kind == ABORT:
            self.aborted.append(Span(producer, first, offset))

    def drop_ended(
        self, known: Iterable[OpenTransaction], open_there: Mapping[int, int]
    ) -> list[OpenTransaction]:
        """Take out those of `known` that are open here, and that the broker has ended; return them.

        `open_there` are the broker's open transactions, producer id to first offset. A first offset
        there may be below the one here: the log may begin within a transaction.
        """
        ended = []
        for one in known:
            first = open_there.get(one.producer_id)
            is_open = self.open.get(one.producer_id) == one.first_offset
            if is_open and (first is None or first > one.first_offset):
                ended.append(one)
                del self.open[one.producer_id]
                if first is not None:
                    self.open[one.producer_id] = first
        return ended

    def resume(self, open_at: Iterable[OpenTransaction]) -> None:
        """Go on after segments that were not read; `open_at` are the open transactions there."""
        self.open = {one.producer_id: one.first_offset for one in open_at}


def spans_of(entry: SegmentEntry) -> list[Span]:
    """Return the aborted transactions of a segment's row, in offsets of the log."""
    base = entry.base_offset
    return [
        Span(one.producer_id, base + one.first_delta, base + one.last_delta)
        for one in entry.aborted
    ]


def spread(entries: Sequence[SegmentEntry], spans: Iterable[Span]) -> tuple[SegmentEntry, ...]:
    """Return rows with the spans that overlap each; `entries` are in the order of their offsets."""
    bases = [entry.base_offset for entry in entries]
    ends = [entry.next_offset for entry in entries]
    inside: list[list[Span]] = [[] for _ in entries]
    for span in spans:
        for slot in range(bisect_right(ends, span.first), bisect_right(bases, span.last)):
            inside[slot].append(span)
    return tuple(with_spans(entry, found) for entry, found in zip(entries, inside, strict=True))


def with_spans(entry: SegmentEntry, spans: Iterable[Span]) -> SegmentEntry:
    """Return a row with those spans that overlap its segment."""
    base = entry.base_offset
    inside = sorted(
        AbortedRange(span.producer_id, span.first - base, span.last - base)
        for span in spans
        if span.first < entry.next_offset and span.last >= base
    )
    return entry._replace(aborted=tuple(inside)) if inside or entry.aborted else entry
