"""The producers and transactions of a segment, read from its batches; a part of `verified`.

    marker, data │ data, ABORT, data │ data          one producer, three segments
                 └ ended here        └ open at the segment's end: a later segment has the marker

A transaction that ends in its segment is compared with the row's aborted spans at once. For others
a `Trace` of each producer goes to `verified_log`, which joins those of a partition.

Compaction, `erase` and repairs drop batches, and a marker may have been among them. So behind a gap
of offsets every transaction is unknown: no record before it is compared with a marker behind it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.log_reader.isolation import AbortedSpan, aborted_spans
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.producers import SEQUENCES
from sparklog.model import SegmentEntry
from sparklog.record.batches import BatchTable
from sparklog.record.markers import ABORT, COMMIT, NO_MARKER, marker_kinds

NOWHERE: Final = -1
"""Means "no such offset"."""
NEVER: Final = 2**63 - 1
"""Where a transaction begins that the metadata do not say is open."""
TOLD_MAX: Final = 20
"""How many problems of one segment are told."""

_DATA: Final = -2


class OpenPart(NamedTuple):
    """A part of a transaction whose marker comes later.

    `shown` is the first record that read_committed readers get by the row, `hidden` the first one
    that a span of the row hides.
    """

    shown: int = NOWHERE
    hidden: int = NOWHERE

    @property
    def first(self) -> int:
        """The first record."""
        return min(one for one in self if one != NOWHERE)

    def with_record(self, offset: int, *, is_hidden: bool) -> "OpenPart":
        """Return the part with a later record."""
        shown, hidden = self
        if is_hidden:
            return OpenPart(shown, offset if hidden == NOWHERE else hidden)
        return OpenPart(offset if shown == NOWHERE else shown, hidden)

    def problem(self, producer_id: int, kind: int, marker: int, opened: int = NEVER) -> str | None:
        """Return what the row says wrongly if this marker ends the transaction; None if nothing.

        From `opened` on, by the metadata, the producer has an open transaction. Readers wait there:
        they get no record of it (`ended`).
        """
        if kind == ABORT and NOWHERE < self.shown < opened:
            return (
                f"offset {self.shown}: a record of producer {producer_id}, whose transaction was "
                f"aborted at {marker}; its row does not say so"
            )
        if kind == COMMIT and self.hidden != NOWHERE:
            return (
                f"offset {self.hidden}: a record of producer {producer_id}, whose transaction was "
                f"committed at {marker}; its row says that it was aborted"
            )
        return None


class LastBatch(NamedTuple):
    """The last batch of a producer that has a sequence; `is_whole`: no record was dropped."""

    last_offset: int
    epoch: int
    last_sequence: int
    is_whole: bool


@dataclass(slots=True)
class Trace:
    """One producer in one segment. `end` is its first marker, if no gap is before it.

    `marker` is its first marker, COMMIT or ABORT, in the transaction that by the metadata is open.
    `part` is the transaction that is open at the segment's end.
    """

    end: tuple[int, int] | None = None
    marker: tuple[int, int] | None = None
    part: OpenPart | None = None
    batch: LastBatch | None = None


@dataclass(slots=True)
class Traces:
    """The traces of a segment by producer id, and the problems of its row.

    There is no gap from `dense_from` to the segment's end, and `has_gap` says whether there is one
    before.
    """

    dense_from: int
    has_gap: bool = False
    by_producer: dict[int, Trace] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class ProducersSeen:
    """Follows the producers of one segment; it is given all of its batches, in order.

    `opened` are the open transactions of the partition, by the metadata.
    """

    def __init__(self, entry: SegmentEntry, opened: Iterable[OpenTransaction]) -> None:
        self._entry = entry
        self._opened = dict(opened)
        self._spans = AbortedSpans(aborted_spans([entry]))
        self._next = entry.base_offset
        self._found = Traces(entry.base_offset)
        self._open: dict[int, OpenPart] = {}
        self._untold = 0

    def add(self, batches: BatchTable, data: NDArray[np.uint8]) -> None:
        """Take the batches of a window, with the file's offsets; their positions are in `data`."""
        batches = batches.raised(self._entry.shift)
        due = batches.due_offsets(self._next)
        gaps = np.flatnonzero(batches.base_offset != due)
        self._next = int(batches.last_offset[-1]) + 1
        kinds = marker_kinds(data, batches)
        self._check_spans(batches, kinds)
        part = 0
        if (batches.producer_id >= 0).any():
            self._take_last(batches)
            part = self._take_transactions(batches, kinds, gaps)
        if part < len(gaps):
            self._break_at(int(batches.base_offset[gaps[-1]]))

    def finish(self) -> Traces:
        """Return what was found."""
        found, end = self._found, self._entry.next_offset
        if self._next != end:
            self._break_at(end)
        for producer, part in self._open.items():
            self._trace(producer).part = part
        if self._untold:
            found.problems.append(f"{self._untold} more problems of its transactions")
        return found

    def _trace(self, producer: int) -> Trace:
        return self._found.by_producer.setdefault(producer, Trace())

    def _tell(self, problem: str | None) -> None:
        if problem is None:
            return
        if len(self._found.problems) < TOLD_MAX:
            self._found.problems.append(problem)
        else:
            self._untold += 1

    def _break_at(self, offset: int) -> None:
        """Forget open transactions: behind this gap nothing is known of them."""
        self._open.clear()
        self._found.has_gap = True
        self._found.dense_from = offset

    def _take_last(self, batches: BatchTable) -> None:
        rows = np.flatnonzero((batches.producer_id >= 0) & (batches.base_sequence >= 0))[::-1]
        _, last = np.unique(batches.producer_id[rows], return_index=True)
        for row in rows[last].tolist():
            span = int(batches.last_offset[row] - batches.base_offset[row])
            self._trace(int(batches.producer_id[row])).batch = LastBatch(
                int(batches.last_offset[row]),
                int(batches.producer_epoch[row]),
                (int(batches.base_sequence[row]) + span) % SEQUENCES,
                int(batches.record_count[row]) == span + 1,
            )

    def _check_spans(self, batches: BatchTable, kinds: NDArray[np.int64]) -> None:
        """Tell the spans that end in these batches, but not at an ABORT of their producer."""
        spans = self._spans
        if not len(spans.last):
            return
        first, end = int(batches.base_offset[0]), int(batches.last_offset[-1]) + 1
        chosen = np.flatnonzero((spans.last >= first) & (spans.last < end))
        rows = np.searchsorted(batches.last_offset, spans.last[chosen])
        is_there = batches.base_offset[rows] <= spans.last[chosen]
        is_unknown = batches.is_control[rows] & (kinds[rows] == NO_MARKER)
        is_right = (kinds[rows] == ABORT) & (batches.producer_id[rows] == spans.producer[chosen])
        for one in chosen[is_there & ~is_unknown & ~is_right].tolist():
            self._tell(
                f"its row says that a transaction of producer {spans.producer[one]} was aborted at "
                f"offset {spans.last[one]}; there is no such marker"
            )

    def _take_transactions(
        self, batches: BatchTable, kinds: NDArray[np.int64], gaps: NDArray[np.int64]
    ) -> int:
        """Follow the transactions; return how many of the gaps lie before the last of them."""
        is_control = batches.is_control
        has_records = batches.is_transactional & (is_control | (batches.record_count > 0))
        rows = np.flatnonzero(has_records)
        rows = rows[batches.producer_id[rows] >= 0]
        producers, offsets = batches.producer_id[rows], batches.base_offset[rows]
        hidden = self._spans.hide(producers, offsets)
        kind = np.where(is_control[rows], kinds[rows], _DATA)
        parts = np.searchsorted(gaps, rows, "right")
        chosen = _without_repeats(producers, kind, hidden, parts)
        columns = (parts, producers, offsets, kind, hidden)
        events = zip(*(column[chosen].tolist() for column in columns), strict=True)
        part = 0
        for part, some in groupby(events, lambda event: event[0]):
            if part:
                self._break_at(int(batches.base_offset[gaps[part - 1]]))
            for _, producer, offset, what, is_hidden in some:
                if what == _DATA:
                    known = self._open.get(producer, OpenPart())
                    self._open[producer] = known.with_record(offset, is_hidden=is_hidden)
                else:
                    self._end(producer, what, offset)
        return part

    def _end(self, producer: int, kind: int, offset: int) -> None:
        trace = self._trace(producer)
        if trace.end is None and not self._found.has_gap:
            trace.end = kind, offset
        opened = self._opened.get(producer, NEVER)
        if kind != NO_MARKER and trace.marker is None and opened < offset:
            trace.marker = kind, offset
        part = self._open.pop(producer, None)
        if part is not None:
            self._tell(part.problem(producer, kind, offset, opened))


class AbortedSpans:
    """The aborted spans of a row, as arrays, by producer and first offset."""

    def __init__(self, spans: Sequence[AbortedSpan]) -> None:
        columns = np.array(spans, np.int64).reshape(-1, 3).T
        self.producer, self.first, self.last = columns
        # How far the spans of a producer reach that begin at or before each of them.
        self._reach = self.last.copy()
        for slot in range(1, len(self._reach)):
            if self.producer[slot] == self.producer[slot - 1]:
                self._reach[slot] = max(self._reach[slot], self._reach[slot - 1])

    def hide(self, producers: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each batch whether a span of its producer covers its first offset."""
        count = len(self.producer)
        if not count:
            return np.zeros(len(offsets), np.bool_)
        both = np.concatenate([self.producer, producers]), np.concatenate([self.first, offsets])
        order = np.lexsort((np.arange(len(both[0])), both[1], both[0]))  # a span before its batch
        before = np.empty(len(order), np.int64)
        before[order] = np.cumsum(order < count) - 1
        slot = before[count:]
        found: NDArray[np.bool_] = (slot >= 0) & (self.producer[slot] == producers)
        return found & (self._reach[slot] >= offsets)


def _without_repeats(
    producers: NDArray[np.int64],
    kind: NDArray[np.int64],
    hidden: NDArray[np.bool_],
    parts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the rows without records that tell no more than the record of the producer before."""
    order = np.argsort(producers, kind="stable")
    is_same = kind[order][1:] == _DATA
    for column in (producers, kind, hidden, parts):
        is_same &= np.diff(column[order].astype(np.int64)) == 0
    return np.sort(order[np.concatenate(([True], ~is_same))[: len(order)]])
