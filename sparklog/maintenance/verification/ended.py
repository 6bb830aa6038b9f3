"""Open transactions that the metadata have wrongly: `verify` closes or enters them.

    log         a(7)   b(8)   COMMIT(7)   c(7)   ABORT(8)   d(9)     producer ids in parentheses
    metadata    7 open from 0, 8 open from 1                         readers wait at 0
    settled     7 open from 3, 9 open from 5, 8 aborted in [1, 4]    readers wait at 3

One walk from the first of them to the log end finds what is open in truth. It also finds the
aborted transactions of all producers there whose records a row does not hide: readers come to them
once the transactions are closed, so the same commit hides them.

A transaction that has ended stays open if a record of it lies before a gap of offsets, where its
marker may have been, or if its producer has written since the walk. If that is so of a later one of
its producer, that one stays open. A transaction that is open in truth, and that the metadata do not
have, or have from a later offset on, is entered: until its end readers wait at its first record. If
its producer has written since the walk, the partition stays as it is. No transactional id changes:
the end of one writes markers only where the metadata have a transaction open.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap
from typing import NamedTuple

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
from sparklog.record.markers import ABORT, KINDS, NO_MARKER, marker_kinds
from sparklog.storage.files import Files


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A transaction that is open in truth; `said` is where it begins by the metadata.

    `said` is None if they do not have it. `opened` has its first record.
    """

    partition: int
    opened: OpenTransaction
    said: int | None = field(compare=False)


class Ended(NamedTuple):
    """A transaction that is open in the metadata, and a marker (its kind, its offset) behind it."""

    partition: int
    opened: OpenTransaction
    kind: int
    marker: int


Wrong = Ended | Unnamed
"""A transaction that the metadata have wrongly."""


@dataclass(slots=True)
class Settled:
    """A note for each transaction that was settled, and the problems that remain."""

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
    transactions with a record that a row does not hide. `unknown` has the first record of each
    transaction whose marker may be lost, by producer.
    """

    def __init__(self, start: int) -> None:
        self.opened: dict[int, int] = {}
        self.shown: list[AbortedSpan] = []
        self.unknown: dict[int, list[int]] = {}
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
        for producer, first in self.opened.items():
            self.unknown.setdefault(producer, []).append(first)
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
            self.unknown.setdefault(producer, []).append(first)
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
    """The walk through a partition, up to the offset `end`.

    `wanted` are the transactions that it was made for, `unnamed` those that it found to be open.
    """

    partition: int
    wanted: Sequence[Wrong]
    end: int
    found: Walked
    unnamed: Sequence[Unnamed]

    def unknown_from(self, one: Ended) -> int | None:
        """Return from where on a producer's marker may be lost; None if nowhere."""
        producer, first = one.opened
        lost = self.found.unknown.get(producer, ())
        return min((offset for offset in lost if offset >= first), default=None)

    def has_ended(self, one: Ended) -> bool:
        """Return True if the marker certainly ends the transaction."""
        lost = self.unknown_from(one)
        return lost is None or lost > one.marker


def settle(
    context: JobContext, topic: TopicDescription, wrong: Sequence[Wrong], *, is_mending: bool
) -> Settled:
    """Report transactions that the metadata have wrongly; with `is_mending` settle them.

    One commit settles all. If it fails, the report says so of each transaction. Raises
    TopicClosedError if the topic is deleted meanwhile.
    """
    settled = Settled()
    if not wrong:
        return settled
    image, ids = context.image(topic), context.catalog.image().transactional_ids
    tell = partial(_line, image, ids)
    lines = {one: tell(one) for one in wrong}
    if is_mending:
        walks = list(_walks(context, image, wrong, settled))
        lines |= {one: tell(one) for walk in walks for one in walk.unnamed if one not in lines}
        done: list[Wrong] = []
        failure: SparklogError | None = None
        try:
            context.catalog.commit(topic, partial(_plan, walks, done), operation="REPAIR")
        except TopicClosedError:
            raise
        except SparklogError as error:  # what is known of the topic's segments is told all the same
            failure = error
            done.clear()
        settled.notes += [f"{lines.pop(one)}: {_done(one)}" for one in done]
        for walk in walks:
            for one in lines.keys() & {*walk.wanted, *walk.unnamed}:
                why = f"not {_done(one)}: {_reason(walk, one)}"
                lines[one] += f"; {f'the commit failed: {failure}' if failure else why}"
    settled.problems += lines.values()
    return settled


def _line(image: TopicImage, ids: TransactionalIds, one: Wrong) -> str:
    name, (producer, first) = image.partition(one.partition).name, one.opened
    if isinstance(one, Ended):
        line = (
            f"{name}: the metadata say that producer {producer} has an open transaction from "
            f"offset {first} on; the first marker found behind it is the {KINDS[one.kind]} at "
            f"{one.marker}"
        )
    else:
        known = "that it has none" if one.said is None else f"that it begins at {one.said}"
        line = (
            f"{name}: producer {producer} has an open transaction with a record at offset {first}, "
            f"and the metadata say {known}"
        )
    known_id = ids.of_producer(producer)
    place = TransactionPartition(image.description.topic_id, one.partition)
    if known_id is not None and known_id.is_open and place in known_id.partitions:
        line += f"; transactional id {known_id.transactional_id!r} has a transaction open there"
    return line


def _done(one: Wrong) -> str:
    return "closed" if isinstance(one, Ended) else "entered"


def _reason(walk: Walk, one: Wrong) -> str:
    if isinstance(one, Ended) and not walk.has_ended(one):
        return "a marker may have been in a gap of its offsets"
    return "it has changed meanwhile, so repair again"


def _walks(
    context: JobContext, image: TopicImage, wrong: Sequence[Wrong], settled: Settled
) -> Iterator[Walk]:
    """Yield a walk for each partition; append the errors of those that fail to the problems."""
    of_partition: dict[int, list[Wrong]] = {}
    for one in wrong:
        of_partition.setdefault(one.partition, []).append(one)
    works = []
    for number, some in of_partition.items():
        log = image.partition(number)
        low = log.log_start_offset
        start = min(_walked_from(one, low) for one in some)
        works.append(
            WalkWork(
                files=context.files,
                topic=image.description,
                entries=log.entries(max(low, start)),
                start=start,
                end=log.log_end_offset,
            )
        )
    answers = context.fleet.map(walked, works, f"transactions of {image.description.name}")
    for work, (number, some), answer in zip(works, of_partition.items(), answers, strict=True):
        log = image.partition(number)
        if isinstance(answer, SparklogError):
            settled.problems.append(f"{log.name}: {answer}")
        else:
            unnamed = [
                Unnamed(number, one, _said(log, one))
                for one in starmap(OpenTransaction, sorted(answer.opened.items()))
                if _is_unnamed(log, one)
            ]
            yield Walk(number, some, work.end, answer, unnamed)


def _walked_from(one: Wrong, log_start_offset: int) -> int:
    """Return where the walk for a transaction begins.

    What is open in truth may begin below the log start, in a segment that reaches above it.
    """
    first = one.opened.first_offset
    return max(first, log_start_offset) if isinstance(one, Ended) else first


def _said(log: PartitionLog, one: OpenTransaction) -> int | None:
    """Return where a producer's transaction begins by the metadata; None if they have none."""
    return dict(log.transactions).get(one.producer_id)


def _is_unnamed(log: PartitionLog, one: OpenTransaction) -> bool:
    """Return True if the metadata do not have a transaction, or have it from a later offset on."""
    said = _said(log, one)
    return said is None or said > one.first_offset


def _plan(walks: Sequence[Walk], done: list[Wrong], image: TopicImage) -> TopicEdit | Done:
    """Return the edit that settles what is still as the walks found it; `done` gets these."""
    done.clear()
    transactions: dict[int, tuple[OpenTransaction, ...]] = {}
    rows: dict[SegmentKey, SegmentEntry] = {}
    for walk in walks:
        log = image.partition(walk.partition)
        later = [entry.producer_ids for entry in log.entries(walk.end)]
        if not all(_is_idle(one, later) and _is_unnamed(log, one.opened) for one in walk.unnamed):
            continue
        ended = [
            one
            for one in walk.wanted
            if isinstance(one, Ended)
            and (one.opened in log.transactions and walk.has_ended(one) and _is_idle(one, later))
        ]
        some: list[Wrong] = [*ended, *walk.unnamed]
        if some:
            done += some
            transactions[log.partition] = _left(log, ended, walk)
            rows |= _hidden(log, walk.found.shown)
    if not done:
        return Done()
    return TopicEdit(transactions=transactions, replace=tuple(rows.values()))


def _is_idle(one: Wrong, later: Sequence[tuple[int, ...] | None]) -> bool:
    """Return True if a producer has certainly not written since the walk.

    `later` are the producers of each row since then, None where they are unknown.
    """
    return not any(ids is None or one.opened.producer_id in ids for ids in later)


def _left(log: PartitionLog, ended: Sequence[Ended], walk: Walk) -> tuple[OpenTransaction, ...]:
    """Return the transactions that stay open.

    A producer that has ended one may have begun another, or its marker may be lost.
    """
    left = dict(log.transactions)
    for one in ended:
        producer, _ = one.opened
        begun = walk.found.opened.get(producer)
        lost = walk.unknown_from(one)
        first = begun if lost is None else lost
        if first is None:
            del left[producer]
        else:
            left[producer] = first
    left |= dict(one.opened for one in walk.unnamed)
    return tuple(starmap(OpenTransaction, sorted(left.items())))


def _hidden(log: PartitionLog, spans: Iterable[AbortedSpan]) -> dict[SegmentKey, SegmentEntry]:
    """Return the rows that aborted transactions reach into, with these."""
    rows: dict[SegmentKey, SegmentEntry] = {}
    for span in spans:
        for number in log.segments.range(span.first, span.last + 1):
            entry = log.segments.entry(number)
            rows[entry.key] = hiding(rows.get(entry.key, entry), span)
    return rows
