"""Transactions that are open in the metadata, and have ended in the log: `verify` closes them.

    log         a(7)   b(8)   COMMIT(7)   c(7)   ABORT(8)        producer ids in parentheses
    metadata    7 open from 0, 8 open from 1                     readers wait at 0
    closed      7 open from 3, 8 aborted in [1, 4]

One walk from the first of them to the log end finds what is open in truth. It also finds the
aborted transactions of all producers there whose records a row does not hide: readers come to them
once the transactions are closed, so the same commit hides them.

A transaction stays as it is if a record of it lies before a gap of offsets, where its marker may
have been; if its producer has written since the walk; or if another producer has a transaction open
that the metadata do not have, or have from a later offset on. Its transactional id stays open in
any case: the end of that one writes markers only where the metadata have a transaction open.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import SparklogError, TopicClosedError
from sparklog.log.windows import checked_windows
from sparklog.log_reader.isolation import AbortedSpan, aborted_spans, hiding
from sparklog.log_reader.opened import damage_in, opened
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.verification.verified_producers import AbortedSpans
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.edit import Done, OpenTransaction, TopicEdit
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.metadata.state.transactions import TransactionalIds, TransactionPartition
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription
from sparklog.record.batches import BatchTable, byte_view
from sparklog.record.markers import ABORT, COMMIT, NO_MARKER, marker_kinds
from sparklog.storage.files import Files

KINDS: Final = {ABORT: "ABORT", COMMIT: "COMMIT"}


class Ended(NamedTuple):
    """A transaction that is open in the metadata, and a marker (its kind, its offset) behind it."""

    partition: int
    opened: OpenTransaction
    kind: int
    marker: int


@dataclass(slots=True)
class Settled:
    """A note for each transaction that was closed, and the problems that remain."""

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkWork:
    """The work of a task: the batches of a partition in the offsets [start, end)."""

    files: Files
    topic: TopicDescription
    entries: Sequence[SegmentEntry]
    start: int
    end: int


class Walked:
    """The transactions in a part of a log. `add` takes all batches of the part, in order.

    `opened` has the first record of each producer behind its last marker. `shown` are aborted
    transactions with a record that a row does not hide. `unknown` are producers with a record whose
    marker may be lost.
    """

    def __init__(self, start: int) -> None:
        self.opened: dict[int, int] = {}
        self.shown: list[AbortedSpan] = []
        self.unknown: set[int] = set()
        self._start = self._next = start
        self._has_shown: set[int] = set()

    def add(self, batches: BatchTable, kinds: NDArray[np.int64], hidden: NDArray[np.bool_]) -> None:
        """Take batches with offsets of the log; those below the start of the part do not count."""
        first = int(np.searchsorted(batches.last_offset, self._start))
        some = batches.slice(first)
        gaps = some.base_offset > some.due_offsets(self._next)
        self._next = max(self._next, int(batches.last_offset[-1]) + 1)
        counts = some.is_transactional & (some.is_control | (some.record_count > 0))
        counts &= some.producer_id >= 0
        rows = np.flatnonzero(gaps | counts)
        columns = (some.producer_id, some.base_offset, some.is_control, kinds[first:])
        events = (one[rows].tolist() for one in (gaps, counts, *columns, hidden[first:]))
        for is_gap, is_event, *event in zip(*events, strict=True):
            if is_gap:
                self._lose()
            if is_event:
                self._take(*event)

    def end(self, end_offset: int) -> None:
        """Take note that no batch comes before this offset."""
        if self._next < end_offset:
            self._lose()

    def _lose(self) -> None:
        """Forget what is open: it may have ended in a gap of offsets."""
        self.unknown.update(self.opened)
        self.opened.clear()
        self._has_shown.clear()

    def _take(
        self, producer: int, offset: int, is_control: bool, kind: int, is_hidden: bool
    ) -> None:
        if not is_control:
            self.opened.setdefault(producer, offset)
            if not is_hidden:
                self._has_shown.add(producer)
            return
        first = self.opened.pop(producer, None)
        if first is not None and kind == NO_MARKER:
            self.unknown.add(producer)
        elif kind == ABORT and first is not None and producer in self._has_shown:
            self.shown.append(AbortedSpan(producer, first, offset))
        self._has_shown.discard(producer)


def walked(work: WalkWork) -> Walked:
    """Walk through the batches. Raises CorruptRecordError and MissingFileError, with the file."""
    directory, found = topic_directory(work.topic), Walked(work.start)
    for entry in work.entries:
        spans = AbortedSpans(aborted_spans([entry]))
        with damage_in(directory, entry):
            for window in checked_windows(opened(work.files, directory, entry)):
                batches = window.batches.raised(entry.shift)
                kinds = marker_kinds(byte_view(window.data), batches)
                found.add(batches, kinds, spans.hide(batches.producer_id, batches.base_offset))
    found.end(work.end)
    return found


class Walk(NamedTuple):
    """The walk through a partition, up to the offset `end`, and the transactions to close there.

    `unnamed` are producers with an open transaction that the metadata do not have, or have from a
    later offset on.
    """

    ended: Sequence[Ended]
    end: int
    found: Walked
    unnamed: frozenset[int]


def settle(
    context: JobContext, topic: TopicDescription, ended: Sequence[Ended], *, is_mending: bool
) -> Settled:
    """Report transactions that have ended; with `is_mending` close them, in one commit.

    If the commit fails, the report says so of each transaction. Raises TopicClosedError if the
    topic is deleted meanwhile.
    """
    settled = Settled()
    if not ended:
        return settled
    image, ids = context.image(topic), context.catalog.image().transactional_ids
    lines = {one: _line(image, ids, one) for one in ended}
    if is_mending:
        walks = list(_walks(context, image, ended, settled))
        closed: list[Ended] = []
        failure: SparklogError | None = None
        try:
            context.catalog.commit(topic, partial(_plan, walks, closed), operation="REPAIR")
        except TopicClosedError:
            raise
        except SparklogError as error:  # what is known of the topic's segments is told all the same
            failure = error
            closed.clear()
        settled.notes += [f"{lines.pop(one)}: closed" for one in closed]
        for walk in walks:
            for one in walk.ended:
                if one in lines:
                    why = f"not closed: {_reason(walk, one)}"
                    lines[one] += f"; {f'the commit failed: {failure}' if failure else why}"
    settled.problems += lines.values()
    return settled


def _line(image: TopicImage, ids: TransactionalIds, one: Ended) -> str:
    log, (producer, first) = image.partition(one.partition), one.opened
    line = (
        f"{log.name}: the metadata say that producer {producer} has an open transaction from "
        f"offset {first} on; the first marker found behind it is the {KINDS[one.kind]} at "
        f"{one.marker}"
    )
    known = ids.of_producer(producer)
    place = TransactionPartition(image.description.topic_id, one.partition)
    if known is not None and known.is_open and place in known.partitions:
        line += f"; transactional id {known.transactional_id!r} has a transaction open there"
    return line


def _reason(walk: Walk, one: Ended) -> str:
    if one.opened.producer_id in walk.found.unknown:
        return "a marker may have been in a gap of its offsets"
    if walk.unnamed:
        return f"producers {sorted(walk.unnamed)} have records behind it that nothing hides"
    return "it has changed meanwhile, so repair again"


def _walks(
    context: JobContext, image: TopicImage, ended: Sequence[Ended], settled: Settled
) -> Iterator[Walk]:
    """Yield a walk for each partition; append the errors of those that fail to the problems."""
    of_partition: dict[int, list[Ended]] = {}
    for one in ended:
        of_partition.setdefault(one.partition, []).append(one)
    works = []
    for number, some in of_partition.items():
        log = image.partition(number)
        start = max(log.log_start_offset, min(one.opened.first_offset for one in some))
        works.append(
            WalkWork(
                files=context.files,
                topic=image.description,
                entries=log.entries(start),
                start=start,
                end=log.log_end_offset,
            )
        )
    answers = context.fleet.map(walked, works, f"transactions of {image.description.name}")
    for work, (number, some), answer in zip(works, of_partition.items(), answers, strict=True):
        if isinstance(answer, SparklogError):
            settled.problems.append(f"{image.partition(number).name}: {answer}")
        else:
            named = dict(image.partition(number).transactions)
            opened = answer.opened.items()
            unnamed = (
                producer for producer, first in opened if named.get(producer, work.end) > first
            )
            yield Walk(some, work.end, answer, frozenset(unnamed))


def _plan(walks: Sequence[Walk], closed: list[Ended], image: TopicImage) -> TopicEdit | Done:
    """Return the edit that closes what is still as the walks found it; `closed` gets these."""
    closed.clear()
    transactions: dict[int, tuple[OpenTransaction, ...]] = {}
    rows: dict[SegmentKey, SegmentEntry] = {}
    for walk in walks:
        log = image.partition(walk.ended[0].partition)
        if walk.unnamed:
            continue
        later = [entry.producer_ids for entry in log.entries(walk.end)]
        some = [one for one in walk.ended if _is_as_found(log, walk, one.opened, later)]
        if some:
            closed += some
            transactions[log.partition] = tuple(_left(log, some, walk.found.opened))
            rows |= _hidden(log, walk.found.shown)
    if not closed:
        return Done()
    return TopicEdit(transactions=transactions, replace=tuple(rows.values()))


def _is_as_found(
    log: PartitionLog,
    walk: Walk,
    one: OpenTransaction,
    later: Sequence[tuple[int, ...] | None],
) -> bool:
    """Return True if the metadata still have a transaction open that the log has certainly ended.

    `later` are the producers of each row since the walk, None where they are unknown.
    """
    if one not in log.transactions or one.producer_id in walk.found.unknown:
        return False
    return not any(ids is None or one.producer_id in ids for ids in later)


def _left(
    log: PartitionLog, closed: Sequence[Ended], opened: Mapping[int, int]
) -> Iterator[OpenTransaction]:
    """Yield the transactions that stay open; a producer may have begun another one."""
    gone = {one.opened for one in closed}
    for one in log.transactions:
        first = opened.get(one.producer_id) if one in gone else one.first_offset
        if first is not None:
            yield OpenTransaction(one.producer_id, first)


def _hidden(log: PartitionLog, spans: Iterable[AbortedSpan]) -> dict[SegmentKey, SegmentEntry]:
    """Return the rows that aborted transactions reach into, with these."""
    rows: dict[SegmentKey, SegmentEntry] = {}
    for span in spans:
        for number in log.segments.range(span.first, span.last + 1):
            entry = log.segments.entry(number)
            rows[entry.key] = hiding(rows.get(entry.key, entry), span)
    return rows
