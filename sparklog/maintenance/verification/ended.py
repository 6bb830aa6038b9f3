"""Open transactions that the metadata have wrongly: `verify` closes or enters them.

    log         a(7)   b(8)   COMMIT(7)   c(7)   ABORT(8)   d(9)     producer ids in parentheses
    metadata    7 open from 0, 8 open from 1                         readers wait at 0
    settled     7 open from 3, 9 open from 5, 8 aborted in [1, 4]    readers wait at 3

One walk from the first of them to the log end finds what is open in truth. It also finds the
aborted transactions of all producers there whose records a row does not hide: readers come to them
once the transactions are closed, so the same commit hides them.

A transaction that has ended stays open if a record of it lies before a gap of offsets, where its
marker may have been, or if its producer has written since the walk. A later transaction of the same
producer stays open for the same reasons. A transaction that is open in truth, and that the metadata
do not have, or have from a later offset on, is entered: until its end readers wait at its first
record. If a producer whose transaction would be entered has written since the walk, its partition
stays as it is. No transactional id changes: the end of one writes markers only where the metadata
have a transaction open.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import NamedTuple

from sparklog.errors import SparklogError, TopicClosedError
from sparklog.log_reader.isolation import AbortedSpan, hiding
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.verification.walked import Walked, WalkWork, walked
from sparklog.metadata.state.edit import Done, OpenTransaction, TopicEdit
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.metadata.state.transactions import (
    TransactionalId,
    TransactionalIds,
    TransactionPartition,
)
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription
from sparklog.record.markers import KINDS


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
    """Notes of transactions that were settled, how many these are, and the problems that remain.

    An entered transaction that only an abort by hand ends is one of the problems.
    """

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    count: int = 0


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
    lines = {one: _line(image, ids, one) for one in wrong}
    if is_mending:
        walks = list(_walks(context, image, wrong, settled))
        lines |= {one: _line(image, ids, one) for walk in walks for one in walk.unnamed}
        plan = _Plan(walks)
        failure: SparklogError | None = None
        try:
            context.catalog.commit(topic, plan.edit, operation="REPAIR")
        except TopicClosedError:
            raise
        except SparklogError as error:  # what is known of the topic's segments is told all the same
            failure = error
            plan.done.clear()
        if plan.done:
            ids = context.catalog.image().transactional_ids  # they may have ended during the walk
        for one in plan.done:
            del lines[one]
            line = f"{_line(image, ids, one)}: {_done(one)}"
            by_hand = _by_hand(image, ids, one)
            (settled.problems if by_hand else settled.notes).append(line + by_hand)
        settled.count = len(plan.done)
        for walk in walks:
            for one in lines.keys() & {*walk.wanted, *walk.unnamed}:
                why = f"not {_done(one)}: {plan.reason(walk, one)}"
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
    holder = _holder(image, ids, one)
    if holder is not None:
        line += f"; transactional id {holder.transactional_id!r} has a transaction open there"
    return line


def _holder(image: TopicImage, ids: TransactionalIds, one: Wrong) -> TransactionalId | None:
    """Return the id that has a transaction of this producer open there; None if there is none."""
    known = ids.of_producer(one.opened.producer_id)
    place = TransactionPartition(image.description.topic_id, one.partition)
    return known if known is not None and known.is_open and place in known.partitions else None


def _by_hand(image: TopicImage, ids: TransactionalIds, one: Wrong) -> str:
    """Return how to end a transaction that was entered, and that no id ends; else an empty text."""
    if isinstance(one, Ended) or _holder(image, ids, one) is not None:
        return ""
    return (
        f"; nobody ends it: sparklog transactions abort --topic {image.description.name} "
        f"--partition {one.partition} --start-offset {one.opened.first_offset}"
    )


def _done(one: Wrong) -> str:
    return "closed" if isinstance(one, Ended) else "entered"


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
        # What is open in truth may begin below the log start, in a segment that reaches above it.
        start = min(
            max(one.opened.first_offset, low) if isinstance(one, Ended) else one.opened.first_offset
            for one in some
        )
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
            found = unnamed(number, answer.opened, dict(log.transactions))
            yield Walk(number, some, work.end, answer, found)


def unnamed(partition: int, opened: Mapping[int, int], said: Mapping[int, int]) -> list[Unnamed]:
    """Return the open transactions that the metadata lack, or have from a later offset on.

    `opened` are those of the log and `said` those of the metadata: first offsets by producer.
    """
    return [
        Unnamed(partition, one, said.get(one.producer_id))
        for one in starmap(OpenTransaction, sorted(opened.items()))
        if _lacks(said, one)
    ]


def _lacks(said: Mapping[int, int], one: OpenTransaction) -> bool:
    """Return True if a transaction is not in the metadata, or from a later offset on."""
    first = said.get(one.producer_id)
    return first is None or first > one.first_offset


class _Plan:
    """The edit that settles what is still as the walks found it.

    `done` are the transactions that it settles. `changed` are those to be entered that it does not
    find as the walk did.
    """

    def __init__(self, walks: Sequence[Walk]) -> None:
        self.done: list[Wrong] = []
        self.changed: set[Wrong] = set()
        self._walks = walks

    def edit(self, image: TopicImage) -> TopicEdit | Done:
        """Return the edit."""
        self.done.clear()
        self.changed.clear()
        transactions: dict[int, tuple[OpenTransaction, ...]] = {}
        rows: dict[SegmentKey, SegmentEntry] = {}
        for walk in self._walks:
            log = image.partition(walk.partition)
            some, ended = self._settled(walk, log)
            if some:
                self.done += some
                transactions[log.partition] = _left(log, ended, walk)
                rows |= _hidden(log, walk.found.shown)
        if not self.done:
            return Done()
        return TopicEdit(transactions=transactions, replace=tuple(rows.values()))

    def _settled(self, walk: Walk, log: PartitionLog) -> tuple[list[Wrong], list[Ended]]:
        """Return what is settled of a partition, and of that what has ended."""
        said = dict(log.transactions)
        later = [entry.producer_ids for entry in log.entries(walk.end)]
        changed = {
            one for one in walk.unnamed if not (_is_idle(one, later) and _lacks(said, one.opened))
        }
        if changed:
            self.changed |= changed
            return [], []
        ended = [
            one
            for one in walk.wanted
            if isinstance(one, Ended)
            and said.get(one.opened.producer_id) == one.opened.first_offset
            and walk.has_ended(one)
            and _is_idle(one, later)
        ]
        return [*ended, *walk.unnamed], ended

    def reason(self, walk: Walk, one: Wrong) -> str:
        """Return why the last edit does not settle a transaction."""
        if isinstance(one, Ended) and not walk.has_ended(one):
            return "a marker may have been in a gap of its offsets"
        is_anothers = one not in self.changed and not self.changed.isdisjoint(walk.unnamed)
        what = "another open transaction of the partition" if is_anothers else "it"
        return f"{what} has changed meanwhile, so repair again"


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
