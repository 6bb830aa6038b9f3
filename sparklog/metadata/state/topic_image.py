"""TopicImage: one topic as of one version.

The log *opens* a topic when a caller asks for it. Until then its description is known, and its
partitions are not; its edits wait, and are applied when it is opened. The edits of an opened topic
wait, too, until a caller asks for its content. So a follower does no work for topics that it does
not read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

from immutables import Map

from sparklog.errors import UsageError
from sparklog.log.segments import SegmentList
from sparklog.metadata.state.edit import (
    ALL_FILES_MS,
    OpenTransaction,
    Receipt,
    ReceiptKey,
    Stamp,
    TopicEdit,
)
from sparklog.metadata.state.partition_log import PartitionLog, changes_by_partition
from sparklog.metadata.state.producers import Use
from sparklog.metadata.state.segments import Later, TakenOut
from sparklog.model import OffsetRange, SegmentEntry, SegmentKey, TopicDescription

Waiting = tuple[tuple[TopicEdit, Stamp], ...]
"""Edits that are not applied yet, and the stamps of their entries."""


class Removal(NamedTuple):
    """The segments that were removed at `removed_ms`; they are among those of `taken_out`."""

    taken_out: TakenOut
    removed_ms: int | None

    @classmethod
    def of(cls, entries: Iterable[SegmentEntry]) -> "Map[SegmentKey, Removal]":
        """Return the removals of segments whose rows in a run have a `removed_ms`, by key."""
        by_key: Mapping[SegmentKey, SegmentEntry] = {one.key: one for one in entries}
        taken_out = Later(by_key)
        removals = {ms: cls(taken_out, ms) for ms in {one.removed_ms for one in by_key.values()}}
        return Map({key: removals[one.removed_ms] for key, one in by_key.items()})

    def entry(self, key: SegmentKey) -> SegmentEntry:
        """Return a removed segment."""
        found = self.taken_out.get()[key]
        is_told = found.removed_ms == self.removed_ms
        return found if is_told else found.removed_at(self.removed_ms)


@dataclass(frozen=True, slots=True, eq=False)
class TopicContent:
    """The parts of a topic; if the topic is not opened, only the two times are known.

    Files made before `vacuum_horizon_ms` may be gone. Receipts of requests' keys last used before
    `receipts_before_ms` are forgotten.
    """

    partitions: Map[int, PartitionLog] = Map()
    removed: Map[SegmentKey, Removal] = Map()
    receipts: Map[ReceiptKey, Receipt] = Map()
    vacuum_horizon_ms: int = 0
    receipts_before_ms: int = 0

    def with_logs(self, partitions: Map[int, PartitionLog]) -> "TopicContent":
        """Return the content with other logs of partitions."""
        # As `replace` does it, in a fraction of the time: every append needs it.
        return TopicContent(
            partitions,
            self.removed,
            self.receipts,
            self.vacuum_horizon_ms,
            self.receipts_before_ms,
        )


NO_CONTENT: Final = TopicContent()
WAITING_MAX: Final = 64
"""How many edits of an opened topic wait at most: an edit takes more memory than its rows."""


class TopicImage:
    """One topic as of one version. `version` is that of the last entry that touched it.

    `is_open` says whether the topic is opened: partitions, segments and receipts are known.
    `waiting` are the edits that are not in the content yet; if the topic is not opened, these are
    all edits since the fold.
    """

    def __init__(
        self,
        description: TopicDescription,
        version: int,
        content: TopicContent = NO_CONTENT,
        waiting: Waiting = (),
        *,
        is_open: bool = True,
    ) -> None:
        self.description = description
        self.version = version
        self.is_open = is_open
        # One attribute: another thread must not see the new content with the edits still waiting.
        self._state = content, waiting

    @property
    def waiting(self) -> Waiting:
        """The edits that are not applied yet, oldest first."""
        return self._state[1]

    @property
    def deleted_ms(self) -> int | None:
        """When the topic was deleted (ms); None while it lives."""
        return self.description.deleted_ms

    @property
    def is_erased(self) -> bool:
        """Whether vacuum has begun to erase the topic's files; then it cannot come back."""
        return self.vacuum_horizon_ms == ALL_FILES_MS

    @property
    def content(self) -> TopicContent:
        """The parts of the topic. Raises UsageError if it is not opened."""
        if not self.is_open:
            name = self.description.name
            raise UsageError(f"topic {name!r} is not opened: ask the metadata log to open it")
        content, waiting = self._state
        if waiting:
            content = _applied(content, self.description.name, waiting)
            self._state = content, ()
        return content

    def partition(self, partition: int) -> PartitionLog:
        """Return a partition's log; it is empty if the partition was never written to."""
        content, waiting = self._state
        if waiting or not self.is_open:
            content = self.content
        return _partition(content, self.description.name, partition)

    @property
    def partitions(self) -> Mapping[int, PartitionLog]:
        """The logs of the partitions that were ever written to."""
        return self.content.partitions

    @cached_property
    def is_imported(self) -> bool:
        """True if an import has written to a partition."""
        return any(log.imported_end_offset for log in self.partitions.values())

    @property
    def removed(self) -> Collection[SegmentEntry]:
        """Removed segments whose files may still be there, in no order."""
        return [removal.entry(key) for key, removal in self.content.removed.items()]

    @property
    def receipts(self) -> Mapping[ReceiptKey, Receipt]:
        """The answers of writes that land once."""
        return self.content.receipts

    @property
    def vacuum_horizon_ms(self) -> int:
        """Files of the topic made before this time (ms) may be gone."""
        return self._state[0].vacuum_horizon_ms

    @property
    def receipts_before_ms(self) -> int:
        """Receipts of requests' keys last used before this time (ms) are forgotten."""
        return self._state[0].receipts_before_ms

    def segments(self, partition: int) -> SegmentList:
        """Return the live segments of one partition, in offset order; empty when there are none."""
        return self.partition(partition).segments

    def find(self, keys: Iterable[SegmentKey]) -> dict[SegmentKey, SegmentEntry]:
        """Return those segments with these keys that are live, by key."""
        of_partition: dict[int, list[SegmentKey]] = {}
        for key in keys:
            of_partition.setdefault(key.partition, []).append(key)
        logs = ((self.partition(number), some) for number, some in of_partition.items())
        return {one.key: one for log, some in logs for one in log.live.find(some)}

    def removed_until(self, limit_ms: int) -> int:
        """Return how many of the removed segments were removed at a time (ms) or before."""
        return sum((one.removed_ms or 0) <= limit_ms for one in self.content.removed.values())

    def receipts_unused_since(self, before_ms: int) -> int:
        """Return how many requests' keys were last used before a time (ms)."""
        found = self.receipts.items()
        return sum(not key.is_versioned and one.used_ms < before_ms for key, one in found)

    def producers_unused_since(self, before_ms: int) -> int:
        """Return how many states of producers were last used before a time (ms)."""
        found = (one for log in self.partitions.values() for one in log.producers.values())
        return sum(one.used_ms < before_ms for one in found)

    def apply(self, edit: TopicEdit, stamp: Stamp) -> "TopicImage":
        """Return the topic after one edit of it."""
        description = edit.description or self.description
        content, waiting = self._state
        if self.is_open and len(waiting) >= WAITING_MAX:
            content, waiting = self.content, ()
        return TopicImage(
            description,
            stamp.version,
            _with_horizons(content, edit, stamp),
            (*waiting, (edit, stamp)),
            is_open=self.is_open,
        )

    def opened(self, content: TopicContent) -> "TopicImage":
        """Return the opened topic: `content` as of the fold, with the waiting edits applied."""
        applied = _applied(content, self.description.name, self.waiting)
        return TopicImage(self.description, self.version, applied)

    def without_folded(self, cover: int) -> "TopicImage":
        """Return a topic that is not opened without the waiting edits that a fold covers."""
        content, waiting = self._state
        rest = tuple(one for one in waiting if one[1].version > cover)
        return TopicImage(self.description, self.version, content, rest, is_open=False)


def _partition(content: TopicContent, topic: str, partition: int) -> PartitionLog:
    return content.partitions.get(partition) or PartitionLog(f"{topic}-{partition}", partition)


def _applied(content: TopicContent, topic: str, waiting: Waiting) -> TopicContent:
    """Return the content after edits, one after another; consecutive appends apply together."""
    if len(waiting) == 1 and waiting[0][0].only_appends:
        edit, stamp = waiting[0]
        if len(edit.segments) == 1 and _is_about(edit, edit.segments[0].partition):
            return _with_one(content, topic, edit, stamp)
        return _grown(content, topic, waiting)
    for appends, some in groupby(waiting, key=lambda one: one[0].only_appends):
        if appends:
            content = _grown(content, topic, some)
        else:
            for edit, stamp in some:
                content = _after(content, topic, edit, stamp)
    return content


def _is_about(edit: TopicEdit, partition: int) -> bool:
    """Whether all producers and transactions that an edit sets are of one partition."""
    return edit.producers.keys() <= {partition} and edit.transactions.keys() <= {partition}


def _with_one(content: TopicContent, topic: str, edit: TopicEdit, stamp: Stamp) -> TopicContent:
    """Return the content after an edit that appends one segment, and is about its partition."""
    (entry,) = edit.segments
    number = entry.partition
    log = _partition(content, topic, number)
    states = edit.producers.get(number)
    uses = () if states is None else ((states, stamp.timestamp_ms),)
    added = ((entry, edit.leader_epochs.get(number)),)
    grown = log.grown(added, uses, edit.transactions.get(number))
    return content.with_logs(content.partitions.set(number, grown))


def _grown(
    content: TopicContent, topic: str, edits: Iterable[tuple[TopicEdit, Stamp]]
) -> TopicContent:
    added: dict[int, list[tuple[SegmentEntry, int | None]]] = {}
    uses: dict[int, list[Use]] = {}
    transactions: dict[int, tuple[OpenTransaction, ...]] = {}
    for edit, stamp in edits:
        for entry in edit.segments:
            epoch = edit.leader_epochs.get(entry.partition)
            added.setdefault(entry.partition, []).append((entry, epoch))
        for number, states in edit.producers.items():
            uses.setdefault(number, []).append((states, stamp.timestamp_ms))
        transactions.update(edit.transactions)
    logs = content.partitions.mutate()
    for number in added.keys() | uses.keys() | transactions.keys():
        log = _partition(content, topic, number)
        some, used = added.get(number, ()), uses.get(number, ())
        logs[number] = log.grown(some, used, transactions.get(number))
    return content.with_logs(logs.finish())


def _after(content: TopicContent, topic: str, edit: TopicEdit, stamp: Stamp) -> TopicContent:
    changes = changes_by_partition(edit)
    logs = content.partitions.mutate()
    removed_ms = stamp.timestamp_ms if edit.removed_ms is None else edit.removed_ms
    touched = {*changes, *edit.partitions, *edit.transactions, *edit.epochs, *edit.producers}
    if edit.forget_producers_before_ms is not None:
        touched.update(content.partitions)
    removed = content.removed.mutate()
    for number in touched:
        of_partition = changes.get(number)
        log = _partition(content, topic, number)
        logs[number], taken_out = log.apply(edit, of_partition, stamp)
        if of_partition is not None:
            removal = Removal(taken_out, removed_ms)
            removed.update({key: removal for key in of_partition.removed if not key.is_shared})
    for key in edit.forget:
        removed.pop(key, None)
    after = TopicContent(
        logs.finish(),
        removed.finish(),
        _receipts_after(content, edit, stamp),
        content.vacuum_horizon_ms,
        content.receipts_before_ms,
    )
    return _with_horizons(after, edit, stamp)


def _receipts_after(
    content: TopicContent, edit: TopicEdit, stamp: Stamp
) -> Map[ReceiptKey, Receipt]:
    known, before_ms = content.receipts, _forgets_before(edit, stamp)
    if not edit.receipts and not before_ms:
        return known
    receipts = known.mutate()
    if before_ms:
        for key, one in known.items():
            if not key.is_versioned and one.used_ms < before_ms:
                del receipts[key]
    for key, one in edit.receipts.items():
        receipts[key] = one._replace(used_ms=stamp.timestamp_ms)
    return receipts.finish()


def _forgets_before(edit: TopicEdit, stamp: Stamp) -> int:
    """Return the time before which receipts are forgotten; it is never later than the entry.

    So an edit forgets no receipt of a later entry.
    """
    return min(edit.forget_receipts_before_ms or 0, stamp.timestamp_ms)


def _with_horizons(content: TopicContent, edit: TopicEdit, stamp: Stamp) -> TopicContent:
    if edit.vacuum_horizon_ms is None and edit.forget_receipts_before_ms is None:
        return content
    return replace(
        content,
        vacuum_horizon_ms=max(content.vacuum_horizon_ms, edit.vacuum_horizon_ms or 0),
        receipts_before_ms=max(content.receipts_before_ms, _forgets_before(edit, stamp)),
    )


def at_log_end(topic: TopicImage, pending: Iterable[SegmentEntry]) -> tuple[SegmentEntry, ...]:
    """Return `pending` with offsets of the log: they follow the log end offset in the order given.

    A pending segment has the offsets of its file: base_offset == file_base_offset.
    """
    ends: dict[int, int] = {}
    placed = []
    for entry in pending:
        base = ends.get(entry.partition)
        if base is None:
            base = topic.partition(entry.partition).log_end_offset
        placed.append(entry if base == entry.base_offset else entry.moved_to(base))
        ends[entry.partition] = base + entry.offset_span
    return tuple(placed)


def added_ranges(topic: TopicImage, edit: TopicEdit) -> tuple[OffsetRange, ...]:
    """Return the offsets that an edit's segments add to the log, one range for each partition."""
    before: dict[int, int] = {}
    spans: dict[int, tuple[int, int]] = {}
    for entry in edit.segments:
        partition = entry.partition
        if partition not in before:
            before[partition] = topic.partition(partition).log_end_offset
        if entry.base_offset >= before[partition]:
            start, _ = spans.get(partition, (entry.base_offset, 0))
            spans[partition] = start, entry.next_offset
    return tuple(OffsetRange(partition, *spans[partition]) for partition in sorted(spans))


def shared_slices(topic: TopicImage) -> Sequence[SegmentKey]:
    """Return the keys of the topic's live slices of shared segments.

    An edit that forgets the topic must remove them; else the shared segments would count them for
    ever.
    """
    found = []
    for log in topic.partitions.values():
        paths = log.live.table.column("log_path").to_pylist()
        if any(SegmentKey(log.partition, path).is_shared for path in paths):
            found += [entry.key for entry in log.entries() if entry.is_shared]
    return found
