"""Reads a history and tells what may not have happened: Jepsen's Kafka checks, and ours.

Pure: events in, anomalies out. No record may be missing between two offsets, for this topic is not
compacted, so a log is dense from its log start to its end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tests.soak.history import (
    Abandoned,
    Altered,
    Answered,
    Begun,
    Deleted,
    DeletionAsked,
    Event,
    Failed,
    Polled,
    Read,
)
from tests.soak.setup import RETAINED
from tests.soak.values import ROWS, VERSIONS, writer_of

Kind = TypeVar("Kind", bound=Event)
Write = tuple[int, int]
"""(producer, version)"""


class Anomaly(StrEnum):
    """What may not happen."""

    LOST = "an acknowledged record is not there"
    MISPLACED = "another value stands at an acknowledged offset"
    DUPLICATE = "one value stands at two offsets"
    INCONSISTENT = "one offset has two values"
    HOLE = "offsets are missing, doubled or out of order"
    UNKNOWN = "a value was read that nobody wrote"
    UNCOMMITTED = "a write was read that was never committed"
    TORN = "a write is visible in part"
    REORDERED = "records of one producer are not in the order they were written"
    WRONG_RANGES = "the acknowledged ranges are not those of the write"
    OTHER_ANSWER = "a replay was answered otherwise"
    BACKWARDS = "the log start, the log end or the topic's metadata went backwards"
    UNASKED = "the log start rose above what was asked"
    LEFT_OVER = "a file is left that nothing refers to"
    FAILED = "a process failed"


class Found(NamedTuple):
    """One anomaly, and where it was seen."""

    anomaly: Anomaly
    where: str


class Seen(NamedTuple):
    """What stands in one partition, offset by offset, by everything that was read of it."""

    offsets: NDArray[np.int64]
    values: NDArray[np.int64]


@dataclass(frozen=True)
class History:
    """All events of all processes; the last poll is that of the log after everything ended."""

    events: list[Event]

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @cached_property
    def begun(self) -> dict[Write, dict[int, list[int]]]:
        """The values of every write by partition."""
        return {(event.producer, event.version): dict(event.values) for event in self.of(Begun)}

    @cached_property
    def polls(self) -> list[Polled]:
        """Every snapshot that was taken."""
        return self.of(Polled)

    @cached_property
    def seen(self) -> dict[int, Seen]:
        """All that was read, by partition: sorted by offset, the same observation once."""
        pairs: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
        for read in chain.from_iterable(poll.reads for poll in self.polls):
            pairs[read.partition].append(np.array([offsets_of(read), read.values], np.int64))
        seen = {}
        for partition, parts in sorted(pairs.items()):
            unique = np.unique(np.concatenate(parts, axis=1), axis=1)
            seen[partition] = Seen(unique[0], unique[1])
        return seen


def offsets_of(read: Read) -> NDArray[np.int64]:
    """The offsets of a read, one a value."""
    if read.offsets is not None:
        return np.array(read.offsets, np.int64)
    return np.arange(read.start, read.start + len(read.values), dtype=np.int64)


def check(history: History) -> list[Found]:
    """Return every anomaly of a history, none when all is well."""
    checks: tuple[Callable[[History], Iterable[Found]], ...] = (
        _failures,
        _holes,
        _inconsistent,
        _duplicates,
        _writers,
        _reordered,
        _acknowledged,
        _answers,
        _torn,
        _backwards,
        _unasked,
    )
    return [found for check_one in checks for found in check_one(history)]


def _failures(history: History) -> Iterator[Found]:
    for event in history.of(Failed):
        yield Found(Anomaly.FAILED, f"{event.process}: {event.error}")


def _holes(history: History) -> Iterator[Found]:
    for poll in history.polls:
        for read in poll.reads:
            offsets = offsets_of(read)
            if not np.array_equal(offsets, np.arange(read.start, read.end)):
                where = f"asked for [{read.start}, {read.end}), got {_spans(offsets)}"
                yield Found(Anomaly.HOLE, f"{poll.reader}, partition {read.partition}: {where}")


def _spans(offsets: NDArray[np.int64]) -> str:
    cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
    parts = [part for part in np.split(offsets, cuts) if len(part)]
    return " ".join(f"[{part[0]}, {part[-1] + 1})" for part in parts[:8]) or "nothing"


def _inconsistent(history: History) -> Iterator[Found]:
    for partition, seen in history.seen.items():
        for slot in np.flatnonzero(np.diff(seen.offsets) == 0).tolist():
            values = seen.values[slot : slot + 2].tolist()
            where = f"partition {partition}, offset {seen.offsets[slot]}: {values}"
            yield Found(Anomaly.INCONSISTENT, where)


def _duplicates(history: History) -> Iterator[Found]:
    if not history.seen:
        return
    values = np.concatenate([seen.values for seen in history.seen.values()])
    found, counts = np.unique(values, return_counts=True)
    for value in found[counts > 1].tolist():
        places = [
            f"{partition}:{offset}"
            for partition, seen in history.seen.items()
            for offset in seen.offsets[seen.values == value].tolist()
        ]
        yield Found(Anomaly.DUPLICATE, f"value {value} at {' '.join(places)}")


def _writers(history: History) -> Iterator[Found]:
    """Values that were never written there, or that were never committed."""
    abandoned = {(event.producer, event.version) for event in history.of(Abandoned)}
    for partition, seen in history.seen.items():
        for values in _runs(seen.values):
            write = writer_of(int(values[0]))
            written = history.begun.get(write, {}).get(partition, [])
            where = f"partition {partition}, write {write}"
            if write in abandoned:
                yield Found(Anomaly.UNCOMMITTED, where)
            elif strangers := set(values.tolist()).difference(written):
                yield Found(Anomaly.UNKNOWN, f"{where}: {sorted(strangers)[:8]}")


def _runs(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Neighbours of one write."""
    runs = np.split(values, np.flatnonzero(np.diff(values // ROWS)) + 1)
    return [run for run in runs if len(run)]


def _reordered(history: History) -> Iterator[Found]:
    """A producer's values only grow, in every partition: row by row, and write by write."""
    for partition, seen in history.seen.items():
        producers = seen.values // ROWS // VERSIONS
        for producer in np.unique(producers).tolist():
            mine = seen.values[producers == producer]
            for slot in np.flatnonzero(np.diff(mine) < 0).tolist():
                where = f"partition {partition}: {mine[slot]} before {mine[slot + 1]}"
                yield Found(Anomaly.REORDERED, where)


def _acknowledged(history: History) -> Iterator[Found]:
    """Every acknowledged record stands where it was said to, unless it was deleted since."""
    final = history.polls[-1]
    present = {read.partition: set(offsets_of(read).tolist()) for read in final.reads}
    seen = {
        partition: dict(zip(found.offsets.tolist(), found.values.tolist(), strict=True))
        for partition, found in history.seen.items()
    }
    for write, ranges in _acknowledgements(history):
        written = history.begun[write]
        for partition, start, end in ranges:
            where = f"write {write}, partition {partition}, [{start}, {end})"
            if len(written.get(partition, [])) != end - start:
                yield Found(Anomaly.WRONG_RANGES, where)
                continue
            known, there = seen.get(partition, {}), present.get(partition, set())
            places = list(zip(range(start, end), written[partition], strict=True))
            if any(known.get(offset, value) != value for offset, value in places):
                yield Found(Anomaly.MISPLACED, where)
            low = final.starts[partition] if partition < len(final.starts) else 0
            if not there.issuperset(range(max(start, low), end)):
                yield Found(Anomaly.LOST, where)
        if {partition for partition, _, _ in ranges} != {p for p in written if written[p]}:
            yield Found(Anomaly.WRONG_RANGES, f"write {write}: {ranges}")


def _acknowledgements(history: History) -> Iterator[tuple[Write, list[tuple[int, int, int]]]]:
    """Each acknowledged write once, as it was answered first."""
    answered: set[Write] = set()
    for event in history.of(Answered):
        write = event.producer, event.version
        if event.ranges is not None and write not in answered:
            answered.add(write)
            yield write, event.ranges


def _answers(history: History) -> Iterator[Found]:
    """A replay gets what the first answer said; nothing only when a later write was answered."""
    first = dict(_acknowledgements(history))
    highest: dict[int, int] = {}
    for event in sorted(history.of(Answered), key=lambda event: event.ended):
        write = event.producer, event.version
        if event.ranges is None:
            if highest.get(event.producer, -1) <= event.version:
                yield Found(Anomaly.OTHER_ANSWER, f"write {write}: no offsets")
        elif event.ranges != first[write]:
            where = f"write {write}: first {first[write]}, then {event.ranges}"
            yield Found(Anomaly.OTHER_ANSWER, where)
        highest[event.producer] = max(event.version, highest.get(event.producer, -1))


def _torn(history: History) -> Iterator[Found]:
    """A reader that goes from snapshot to snapshot meets a write as a whole, or not at all."""
    ends: dict[str, list[int]] = {}
    for poll in history.polls:
        before = ends.get(poll.reader, [])
        ends[poll.reader] = poll.ends
        if not poll.is_whole:
            continue
        for write, parts in _writes_of(poll).items():
            missing = [
                partition
                for partition, values in history.begun.get(write, {}).items()
                if _is_cut(
                    values, parts.get(partition, []), _may_be_trimmed(poll, before, partition)
                )
            ]
            if missing:
                yield Found(Anomaly.TORN, f"{poll.reader}: {write} lacks partitions {missing}")


def _writes_of(poll: Polled) -> dict[Write, dict[int, list[int]]]:
    writes: dict[Write, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for read in poll.reads:
        for values in _runs(np.array(read.values, np.int64)):
            writes[writer_of(int(values[0]))][read.partition] += values.tolist()
    return writes


def _may_be_trimmed(poll: Polled, before: list[int], partition: int) -> bool:
    """Whether the log start rose above where the reader was."""
    if partition >= len(poll.starts):
        return False
    return poll.starts[partition] > (before[partition] if partition < len(before) else 0)


def _is_cut(written: list[int], got: list[int], may_be_trimmed: bool) -> bool:
    """Whether records are missing that no deletion took: it takes the first ones."""
    return got != (written[len(written) - len(got) :] if may_be_trimmed else written)


def _backwards(history: History) -> Iterator[Found]:
    """What ended before a poll began is known to it: log starts, log ends, metadata."""
    facts = sorted(_facts(history))
    known: dict[str, int] = {}
    slot = 0
    for poll in sorted(history.polls, key=lambda poll: poll.began):
        while slot < len(facts) and facts[slot][0] <= poll.began:
            _, name, value = facts[slot]
            known[name] = max(value, known.get(name, 0))
            slot += 1
        told = dict(_told(poll))
        for name, value in known.items():
            if told.get(name, 0) < value:
                where = f"{poll.reader}: {name} is {told.get(name, 0)}, was {value}"
                yield Found(Anomaly.BACKWARDS, where)


def _told(poll: Polled) -> Iterator[tuple[str, int]]:
    for partition, (start, end) in enumerate(zip(poll.starts, poll.ends, strict=True)):
        yield f"log start {partition}", start
        yield f"log end {partition}", end
    yield "partition count", poll.partitions
    yield "config revision", poll.revision


def _facts(history: History) -> Iterator[tuple[int, str, int]]:
    """(known since, what, at least)"""
    for poll in history.polls:
        for name, value in _told(poll):
            yield poll.ended, name, value
    for answer in history.of(Answered):
        for partition, _, end in answer.ranges or []:
            yield answer.ended, f"log end {partition}", end
    for deleted in history.of(Deleted):
        yield deleted.ended, f"log start {deleted.partition}", deleted.low
    for altered in history.of(Altered):
        yield altered.ended, "partition count", altered.partitions
        yield altered.ended, "config revision", altered.revision


def _unasked(history: History) -> Iterator[Found]:
    """A log start is one that somebody had asked for by then, or leaves what must be retained."""
    asked = sorted(history.of(DeletionAsked), key=lambda event: event.began)
    allowed: dict[int, int] = {}
    slot = 0
    for poll in sorted(history.polls, key=lambda poll: poll.ended):
        while slot < len(asked) and asked[slot].began < poll.ended:
            partition, offset = asked[slot].partition, asked[slot].offset
            allowed[partition] = max(offset, allowed.get(partition, 0))
            slot += 1
        for partition, start in enumerate(poll.starts):
            if start > max(allowed.get(partition, 0), poll.ends[partition] - RETAINED):
                where = f"{poll.reader}: log start of {partition} is {start}"
                yield Found(Anomaly.UNASKED, where)
