"""Reads a history of transactions and tells what may not have happened: Jepsen's checks of Kafka.

Pure: events in, anomalies out. Definitions are those of Jepsen's queue workload for Kafka and
Redpanda, but for one thing: the whole log is read at the end, so a write is lost when it is not
there, and not only when somebody has read behind it. Aborted records and markers take offsets, so a
reader meets no offsets but those of the final log, and of these every one.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import NamedTuple, TypeVar

from tests.soak.history import Failed
from tests.soak.transactions.history import (
    COMMITTED,
    UNCOMMITTED,
    Asked,
    Audited,
    Began,
    Ended,
    Event,
    Final,
    Outcome,
    Pairs,
    Polled,
)

Kind = TypeVar("Kind", bound=Event)


class Anomaly(StrEnum):
    """What may not happen."""

    LOST = "a record of a committed transaction is not there"
    VANISHED = "a record was read that is not there at the end"
    TORN = "a transaction is visible in part"
    ABORTED_READ = "a record of an aborted transaction is visible (G1a)"
    EARLY_READ = "a record was visible before its transaction's commit was asked for"
    CYCLE = "transactions have read each other's writes (G1c)"
    DUPLICATE = "one value stands at two offsets"
    INCONSISTENT = "one offset has two values"
    UNKNOWN = "a value was read that nobody wrote there"
    MISPLACED = "an acknowledged record stands at another offset"
    REORDERED = "records of a producer are not in the order they were written"
    BACKWARDS = "polls are out of order"
    SKIPPED = "polls leave records out"
    TAKEN_TWICE = "two committed transactions of a group have read the same record"
    NOT_TAKEN = "no transaction of a group has read a record before those it has read"
    MONEY = "money was made or lost"
    IDLE = "no transaction was committed"
    FAILED = "a process failed"


class Found(NamedTuple):
    """One anomaly, and where it was seen."""

    anomaly: Anomaly
    where: str


@dataclass(frozen=True)
class History:
    """All events of all processes. A value's transaction is what it was begun with."""

    events: Sequence[Event]

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @cached_property
    def written(self) -> dict[tuple[str, str], str]:
        """The transaction of each (key, value)."""
        return {send: event.txn for event in self.of(Began) for send in event.sends}

    @cached_property
    def told(self) -> dict[str, str]:
        """The outcome that a transaction's producer was told."""
        return {event.txn: event.outcome for event in self.of(Ended)}

    @cached_property
    def _asked(self) -> dict[str, int]:
        """The time at which each transaction's end was asked for."""
        return {event.txn: event.asked for event in self.of(Asked)}

    @cached_property
    def _ended(self) -> dict[str, int]:
        """The time at which each transaction's producer was told its end."""
        return {event.txn: event.ended for event in self.of(Ended)}

    def outlived(self, one: str, other: str) -> bool:
        """Whether a transaction may have been open when another one's end was asked for."""
        return one != other and self._ended.get(one, math.inf) > self._asked.get(other, math.inf)

    @cached_property
    def final(self) -> dict[str, dict[str, Pairs]]:
        """The log at the end, by isolation level and key."""
        return {event.isolation: dict(event.reads) for event in self.of(Final)}

    @cached_property
    def polls(self) -> list[Polled]:
        """Every poll, in the order of time."""
        return sorted(self.of(Polled), key=lambda poll: poll.began)

    @cached_property
    def seen(self) -> set[tuple[str, str, int, str]]:
        """All that anybody has read: (isolation, key, offset, value)."""
        return {
            (event.isolation, key, *pair)
            for event in chain[Polled | Final](self.of(Polled), self.of(Final))
            for key, pairs in event.reads
            for pair in pairs
        }

    @cached_property
    def visible(self) -> set[tuple[str, str]]:
        """Each (key, value) that a read_committed reader sees at the end."""
        reads = self.final[COMMITTED].items()
        return {(key, value) for key, pairs in reads for _, value in pairs}

    @cached_property
    def committed(self) -> set[str]:
        """Transactions that were committed: their producers were told so, or their writes show."""
        told = {txn for txn, outcome in self.told.items() if outcome == Outcome.COMMITTED}
        return told | {self.written[one] for one in self.visible if one in self.written}


def check(history: History) -> list[Found]:
    """Return every anomaly of a history, none when all is well."""
    checks: tuple[Callable[[History], Iterable[Found]], ...] = (
        _failures,
        _lost,
        _aborted,
        _early,
        _cycles,
        _placed,
        _acknowledged,
        _reordered,
        _followed,
        _internal,
        _taken,
        _money,
    )
    return [found for check_one in checks for found in check_one(history)]


def _failures(history: History) -> Iterator[Found]:
    for event in history.of(Failed):
        yield Found(Anomaly.FAILED, f"{event.process}: {event.error}")
    if not history.committed:
        yield Found(Anomaly.IDLE, f"{len(history.told)} transactions")


def _lost(history: History) -> Iterator[Found]:
    """Of a committed transaction everything is there; of any other one, all or nothing."""
    for event in history.of(Began):
        missing = [send for send in event.sends if send not in history.visible]
        if not missing:
            continue
        where = f"{event.txn} lacks {missing[:4]}"
        if history.told.get(event.txn) == Outcome.COMMITTED:
            yield Found(Anomaly.LOST, where)
        if len(missing) < len(event.sends):
            yield Found(Anomaly.TORN, where)


def _aborted(history: History) -> Iterator[Found]:
    for isolation, key, offset, value in sorted(history.seen):
        txn = history.written.get((key, value))
        where = f"{isolation}, {key}:{offset}: {value}"
        if txn is None:
            yield Found(Anomaly.UNKNOWN, where)
        elif isolation == COMMITTED and history.told.get(txn) == Outcome.ABORTED:
            yield Found(Anomaly.ABORTED_READ, where)


def _early(history: History) -> Iterator[Found]:
    """A read_committed reader sees nothing of a transaction that nobody wants to commit yet."""
    asked = {event.txn: event.asked for event in history.of(Asked) if event.is_commit}
    for poll in history.polls:
        if poll.isolation != COMMITTED:
            continue
        for key, pairs in poll.reads:
            for offset, value in pairs:
                txn = history.written.get((key, value), "")
                if txn and asked.get(txn, poll.ended) >= poll.ended:
                    yield Found(Anomaly.EARLY_READ, f"{poll.reader}, {key}:{offset}: {value}")
    for key, value in sorted(history.visible):
        txn = history.written.get((key, value), "")
        if txn and txn not in asked:
            yield Found(Anomaly.EARLY_READ, f"the end, {key}: {value}")


def _cycles(history: History) -> Iterator[Found]:
    """G1c over write-read edges: who has read a write comes after its writer."""
    after: dict[str, set[str]] = defaultdict(set)
    for poll in history.polls:
        if poll.txn not in history.committed:
            continue
        for key, pairs in poll.reads:
            writers = {history.written.get((key, value), "") for _, value in pairs}
            after[poll.txn] |= writers & history.committed
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        yield Found(Anomaly.CYCLE, " ← ".join(error.args[1]))


def _placed(history: History) -> Iterator[Found]:
    """An offset has one value, and a value one offset, whoever reads."""
    offsets: dict[tuple[str, int], set[str]] = defaultdict(set)
    places: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for _, key, offset, value in history.seen:
        offsets[key, offset].add(value)
        places[value].add((key, offset))
    for place, values in offsets.items():
        if len(values) > 1:
            yield Found(Anomaly.INCONSISTENT, f"{place}: {sorted(values)}")
    for value, found in places.items():
        if len(found) > 1:
            yield Found(Anomaly.DUPLICATE, f"{value} at {sorted(found)}")


def _acknowledged(history: History) -> Iterator[Found]:
    """An acknowledged record stands where its producer was told, aborted or not."""
    there = {
        (key, offset): value
        for key, pairs in history.final[UNCOMMITTED].items()
        for offset, value in pairs
    }
    for event in history.of(Ended):
        for key, offset, value in event.sent:
            if there.get((key, offset)) != value:
                found = there.get((key, offset))
                yield Found(Anomaly.MISPLACED, f"{value} at {key}:{offset}, where {found} is")


def _reordered(history: History) -> Iterator[Found]:
    """A transaction's records of a partition are in the order they were written."""
    order = {send: rank for event in history.of(Began) for rank, send in enumerate(event.sends)}
    for key, pairs in history.final[UNCOMMITTED].items():
        last: dict[str, int] = {}
        for offset, value in pairs:
            txn = history.written.get((key, value))
            if txn is None:
                continue
            if order[key, value] < last.get(txn, -1):
                yield Found(Anomaly.REORDERED, f"{key}:{offset}: {value}")
            last[txn] = order[key, value]


def _followed(history: History) -> Iterator[Found]:
    """A reader that goes through the log meets the final log, record by record.

    At the end of a partition it has all records there of each transaction that it has seen there.
    """
    readers: dict[str, list[Polled]] = defaultdict(list)
    for poll in history.polls:
        if not poll.txn:
            readers[poll.reader].append(poll)
    for reader, polls in readers.items():
        final = history.final[polls[0].isolation]
        met: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for poll in polls:
            for key, pairs in poll.reads:
                met[key] += pairs
            if poll.isolation == COMMITTED:
                for key in poll.ends:
                    yield from _cut(history, reader, key, met[key])
        for key, found in met.items():
            yield from _in_order(f"{reader}, {key}", found, final.get(key, ()), is_first=True)


def _cut(
    history: History, reader: str, key: str, met: Sequence[tuple[int, str]]
) -> Iterator[Found]:
    """Find a transaction that a reader at the end of a partition has seen in part there.

    The end is the last stable offset: an open transaction hides all records behind its first one.
    So a record is not missed if another transaction, which may have been open, has one before it.
    """
    if not met:
        return
    last = met[-1][0]
    before = {_txn(value) for _, value in met}
    behind = [one for one in history.final[UNCOMMITTED].get(key, ()) if one[0] > last]
    missed = []
    for offset, value in history.final[COMMITTED].get(key, ()):
        txn = _txn(value)
        hiding = (history.outlived(_txn(other), txn) for place, other in behind if place < offset)
        if offset > last and txn in before and not any(hiding):
            missed.append(value)
    if missed:
        yield Found(Anomaly.TORN, f"{reader} at the end of {key} ({last}) lacks {missed[:4]}")


def _txn(value: str) -> str:
    """The transaction that a value names."""
    return value.partition("/")[0]


def _internal(history: History) -> Iterator[Found]:
    """The polls of one transaction go on one behind the other."""
    inside: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    moved = {poll.txn for poll in history.polls if poll.is_moved}
    for poll in history.polls:
        if poll.txn and poll.txn not in moved:
            for key, pairs in poll.reads:
                inside[poll.txn, key] += pairs
    final = history.final[COMMITTED]
    for (txn, key), found in inside.items():
        yield from _in_order(f"{txn}, {key}", found, final.get(key, ()), is_first=False)


def _in_order(
    where: str, pairs: Sequence[tuple[int, str]], final: Pairs, *, is_first: bool
) -> Iterator[Found]:
    """Compare what was read with the final log; with `is_first` it begins where the log does."""
    ranks = {pair: rank for rank, pair in enumerate(final)}
    last = -1 if is_first else None
    for pair in pairs:
        rank = ranks.get(pair)
        if rank is None:
            yield Found(Anomaly.VANISHED, f"{where}: {pair}")
            continue
        if last is not None and rank <= last:
            yield Found(Anomaly.BACKWARDS, f"{where}: {pair} after {final[last]}")
        elif last is not None and rank > last + 1:
            yield Found(Anomaly.SKIPPED, f"{where}: {final[last + 1]} before {pair}")
        last = rank


def _taken(history: History) -> Iterator[Found]:
    """Committed transactions that commit offsets, too, take every record of their group once."""
    taken: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for poll in history.polls:
        if poll.txn in history.committed:
            taken[poll.reader].update(
                (key, offset) for key, pairs in poll.reads for offset, _ in pairs
            )
    for group, places in taken.items():
        newest: dict[str, int] = {}
        for (key, offset), count in places.items():
            newest[key] = max(offset, newest.get(key, -1))
            if count > 1:
                yield Found(Anomaly.TAKEN_TWICE, f"{group}, {key}:{offset}")
        for key, last in newest.items():
            for offset, value in history.final[COMMITTED].get(key, ()):
                if offset < last and not places[key, offset]:
                    yield Found(Anomaly.NOT_TAKEN, f"{group}, {key}:{offset}: {value}")


def _money(history: History) -> Iterator[Found]:
    """As of a version without an open transaction the accounts have what they began with: 0."""
    for event in history.of(Audited):
        if event.is_closed and event.money:
            yield Found(Anomaly.MONEY, f"version {event.version}: {event.money}")
