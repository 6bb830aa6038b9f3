"""Decides which offsets of a read come from the table, and which from the log. Pure.

    log      start │■■■■■■■■ cleaned ■■■■■■■■│            │ aborted │        │          │ end
    table                 start │■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■│ end
    read     ─── log ────────────────────────┤── table ───┤── log ──┤─ table ┤── log ───┤

The table has the records of [start, end) that a read_committed reader saw when they were copied.
Some offsets must come from the log, because it differs there: offsets below the cleaner offset
(compaction has removed records), offsets without a segment, and, for a read_uncommitted reader,
offsets of aborted transactions.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sparklog.metadata.state.partition_log import PartitionLog
from sparklog.model import READ_COMMITTED
from sparklog.table.marks import Mark

Span = tuple[int, int]
"""The offsets [start, end)."""


class Stitch(NamedTuple):
    """A range of offsets, split into spans to read from the table and spans to read from the log.

    Both lists are in order. All spans are disjoint; together they cover the range.
    """

    table: list[Span]
    log: list[Span]


def stitch(start: int, end: int, mark: Mark, log: PartitionLog, isolation: str) -> Stitch:
    """Return which of the offsets [start, end) come from the table, and which from the log.

    `log` is the partition as of a commit that is not older than the table's version. So it has all
    aborted transactions below `mark.end`.
    """
    low, high = max(start, mark.start, log.cleaner_offset), min(end, mark.end)
    if low >= high:
        return Stitch([], [(start, end)])
    without = [(start, low), (high, end), *_uncovered(log, low, high)]
    if isolation != READ_COMMITTED:
        without += _aborted(log, low, high)
    by_log = list(_joined((max(a, start), min(b, end)) for a, b in without))
    return Stitch(list(_between(by_log, start, end)), by_log)


def _uncovered(log: PartitionLog, low: int, high: int) -> Iterator[Span]:
    """Yield the offsets in [low, high) that no live segment has; some spans are empty."""
    at = low
    for slot in log.segments.range(low, high):
        entry = log.segments.entry(slot)
        yield at, entry.base_offset
        at = max(at, entry.next_offset)
    yield at, high


def _aborted(log: PartitionLog, low: int, high: int) -> Iterator[Span]:
    """Yield the offsets in [low, high) from first to last of each aborted transaction."""
    for slot in log.segments.range(low, high):
        entry = log.segments.entry(slot)
        for one in entry.aborted:
            first, last = entry.base_offset + one.first_delta, entry.base_offset + one.last_delta
            yield max(first, low), min(last + 1, high)


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the same offsets as disjoint spans, in order."""
    held: Span | None = None
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if held is None:
            held = start, end
        elif start <= held[1]:
            held = held[0], max(held[1], end)
        else:
            yield held
            held = start, end
    if held is not None:
        yield held


def _between(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """Yield the offsets of [start, end) outside the spans, which are disjoint and in order."""
    for first, last in spans:
        if start < first:
            yield start, first
        start = last
    if start < end:
        yield start, end
