"""The image: everything the log dir's metadata says as of one version; and `apply`, which makes it.

    image.apply(entry) -> image       pure; costs what the entry's edits touch

An image shares its structure with the one before it: an entry makes new only the topics and
partitions that it names. `Image.topic(id).partition(p)` is a **PartitionLog**, the object that
answers for one partition (Kafka's UnifiedLog).

A topic that nobody asked for is *closed to view*: its description is known, its partitions are not.
The edits that concern it wait, and are applied when the store opens it (`opened`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa
from immutables import Map

from sparklog.errors import OffsetOutOfRangeError, UsageError
from sparklog.log.segments import SegmentList
from sparklog.metadata.edit import (
    NEW_PARTITION,
    Edit,
    EpochStart,
    FoldEdit,
    Lease,
    OpenTransaction,
    PartitionState,
    Receipt,
    ReceiptKey,
    TopicEdit,
)
from sparklog.metadata.segments import NO_ROWS, LiveSegments
from sparklog.metadata.tables import segment_entries
from sparklog.model import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetRange,
    SegmentEntry,
    SegmentKey,
    TopicDescription,
)


class Stamp(NamedTuple):
    """The place of an entry in the log: its version, its id, and its time."""

    version: int
    entry_id: str
    timestamp_ms: int


NO_STAMP: Final = Stamp(-1, "", 0)


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets [start, end) of the log that lie in one segment. Picklable, without bytes."""

    segment: SegmentEntry
    start: int
    end: int


class PartitionLog:
    """One partition's log as of one version: Kafka's UnifiedLog without its bytes.

    `name` is "<topic>-<partition>", for messages. Offsets are those of the log.
    """

    def __init__(
        self,
        name: str,
        partition: int,
        state: PartitionState = NEW_PARTITION,
        live: LiveSegments | None = None,
        transactions: tuple[OpenTransaction, ...] = (),
        epochs: tuple[EpochStart, ...] = (),
    ) -> None:
        self.name = name
        self.partition = partition
        self.state = state
        self.live = live if live is not None else LiveSegments.of(NO_ROWS)
        self.transactions = transactions
        self.epochs = epochs

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.state.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The least first offset of an open transaction, else the log end offset.

        A reader of committed records ends here (UnifiedLog.lastStableOffset).
        """
        first = min((one.first_offset for one in self.transactions), default=self.log_end_offset)
        return max(min(first, self.log_end_offset), self.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch; an edit planned with an older one is refused."""
        return self.state.leader_epoch

    @property
    def cleaner_offset(self) -> int:
        """Compaction has cleaned the log below this offset."""
        return self.state.cleaner_offset

    @property
    def imported_end_offset(self) -> int:
        """The log end offset of the broker's log that was imported last."""
        return self.state.imported_end_offset

    def end_offset(self, isolation: str = READ_UNCOMMITTED) -> int:
        """Return where a reader of this isolation level ends: last stable or log end offset."""
        return self.last_stable_offset if isolation == READ_COMMITTED else self.log_end_offset

    def end_of_epoch(self, epoch: int) -> EpochStart | None:
        """Return the largest epoch at or below `epoch`, and the offset where it ends.

        None when the log has no such epoch (LeaderEpochFileCache.endOffsetFor).
        """
        found: EpochStart | None = None
        for one in self.epochs:
            if one.epoch > epoch:
                return None if found is None else EpochStart(found.epoch, one.start_offset)
            found = one
        return None if found is None else EpochStart(found.epoch, self.log_end_offset)

    @property
    def segments(self) -> SegmentList:
        """The live segments, in offset order, to search by offset and by time."""
        return self.live.by_offset

    def entries(self, start_offset: int = 0) -> list[SegmentEntry]:
        """Return the live segments that end above an offset, in offset order."""
        first = self.segments.first_ending_after(start_offset)
        return [] if first is None else segment_entries(self.live.table.slice(first))

    def check_range(self, start: int, end: int) -> None:
        """Raise OffsetOutOfRangeError unless [start, end) is within the log."""
        low, high = self.log_start_offset, self.log_end_offset
        if not low <= start <= end <= high:
            is_one = 0 <= end - start < 2
            span = f"offset {start} is" if is_one else f"offsets [{start}, {end}) are"
            raise OffsetOutOfRangeError(
                f"{self.name}: {span} not within the log, [{low}, {high})",
                partition=self.partition,
            )

    def slices(self, start: int, end: int) -> Iterator[Slice]:
        """Return the slices that hold [start, end), in order, each made when it is asked for.

        Gaps that compaction left give no slice. Raises OffsetOutOfRangeError, at once, when the
        range does not lie within the log.
        """
        self.check_range(start, end)
        segments = self.segments
        entries = map(segments.entry, segments.range(start, end))
        return (
            Slice(entry, max(start, entry.base_offset), min(end, entry.next_offset))
            for entry in entries
        )

    def apply(self, edit: TopicEdit, changes: "SegmentChanges | None") -> "PartitionLog":
        """Return the log after an edit of its topic; `changes` are the edit's of this partition."""
        number, state, live = self.partition, self.state, self.live
        epochs = edit.epochs.get(number, self.epochs)
        if changes is not None:
            for entry in changes.added:
                state = state.grown(PartitionState(log_end_offset=entry.next_offset))
            live = changes.applied(live, self.log_end_offset)
        state = state.grown(edit.partitions.get(number, NEW_PARTITION))
        epoch = edit.leader_epochs.get(number)
        grows = changes is not None and changes.added
        if grows and epoch is not None and (not epochs or epochs[-1].epoch < epoch):
            epochs = (*epochs, EpochStart(epoch, self.log_end_offset))
        transactions = edit.transactions.get(number, self.transactions)
        return PartitionLog(self.name, number, state, live, transactions, epochs)


class SegmentChanges:
    """What an edit does to the live segments of one partition."""

    def __init__(self) -> None:
        self.added: list[SegmentEntry] = []
        self.replaced: list[SegmentEntry] = []
        self.removed: list[SegmentKey] = []

    def applied(self, live: LiveSegments, end_offset: int) -> LiveSegments:
        """Return the live segments after the changes; `end_offset` is the log's before them."""
        inside = [entry for entry in self.added if entry.base_offset < end_offset]
        if inside or self.replaced or self.removed:
            gone = [*self.removed, *(entry.key for entry in self.replaced)]
            live = live.changed(gone, [*inside, *self.replaced])
        for entry in self.added:
            if entry.base_offset >= end_offset:
                live = live.appended(entry)
        return live


def changes_by_partition(edit: TopicEdit) -> dict[int, SegmentChanges]:
    """Return an edit's changes of live segments, partition by partition."""
    found: dict[int, SegmentChanges] = {}
    for entry in edit.segments:
        found.setdefault(entry.partition, SegmentChanges()).added.append(entry)
    for entry in edit.replace:
        found.setdefault(entry.partition, SegmentChanges()).replaced.append(entry)
    for key in edit.remove:
        found.setdefault(key.partition, SegmentChanges()).removed.append(key)
    return found


class TopicImage:
    """One topic as of one version. `version` is that of the last entry that touched it.

    `waiting` holds the edits since the fold while the topic is closed to view, None once it is
    opened: until then only the description can be asked for.
    """

    def __init__(
        self,
        description: TopicDescription,
        version: int,
        *,
        partitions: "Map[int, PartitionLog]" = Map(),  # noqa: B008 - immutable
        removed: "Map[SegmentKey, SegmentEntry]" = Map(),  # noqa: B008
        receipts: "Map[ReceiptKey, Receipt]" = Map(),  # noqa: B008
        vacuum_horizon_ms: int = 0,
        receipts_before_ms: int = 0,
        waiting: tuple[tuple[TopicEdit, Stamp], ...] | None = None,
    ) -> None:
        self.description = description
        self.version = version
        self._partitions = partitions
        self._removed = removed
        self._receipts = receipts
        self.vacuum_horizon_ms = vacuum_horizon_ms
        self.receipts_before_ms = receipts_before_ms
        self.waiting = waiting

    @property
    def is_open(self) -> bool:
        """Whether partitions, segments and receipts can be asked for."""
        return self.waiting is None

    @property
    def closed_ms(self) -> int | None:
        """When the topic was deleted; None while it lives."""
        return self.description.deleted_ms

    def partition(self, partition: int) -> PartitionLog:
        """Return a partition's log; a partition never written to is empty."""
        found = self._opened._partitions.get(partition)
        return found or PartitionLog(f"{self.description.name}-{partition}", partition)

    @property
    def partitions(self) -> Mapping[int, PartitionLog]:
        """The logs of the partitions that were ever written to."""
        return self._opened._partitions

    @property
    def removed(self) -> Collection[SegmentEntry]:
        """Removed segments whose files may still be there, in no order."""
        return self._opened._removed.values()

    @property
    def receipts(self) -> Mapping[ReceiptKey, Receipt]:
        """The answers of writes that land once."""
        return self._opened._receipts

    def segments(self, partition: int) -> SegmentList:
        """Return the live segments of one partition, in offset order; empty when there are none."""
        return self.partition(partition).segments

    @cached_property
    def live(self) -> pa.Table:
        """All live segments (SEGMENT_SCHEMA), sorted by partition and base offset."""
        logs = [self.partitions[number] for number in sorted(self.partitions)]
        tables = [log.live.table for log in logs if len(log.live)]
        return pa.concat_tables([NO_ROWS, *tables]).combine_chunks()

    def receipts_unused_since(self, before_ms: int) -> int:
        """Return how many requests' keys were last used before a time."""
        found = self.receipts.items()
        return sum(not key.is_versioned and one.used_ms < before_ms for key, one in found)

    @property
    def _opened(self) -> "TopicImage":
        if self.waiting is not None:
            raise UsageError(
                f"topic {self.description.name!r} is closed to view: ask the metadata log to open it"
            )
        return self

    def apply(self, edit: TopicEdit, stamp: Stamp) -> "TopicImage":
        """Return the topic after one edit of it."""
        description = edit.description or self.description
        if self.waiting is not None:
            waiting = (*self.waiting, (edit, stamp))
            return TopicImage(description, stamp.version, waiting=waiting)
        changes = changes_by_partition(edit)
        touched = {*changes, *edit.partitions, *edit.transactions, *edit.epochs}
        removed = self._without_removed(edit, changes)
        with self._partitions.mutate() as logs:
            for number in touched:
                logs[number] = self.partition(number).apply(edit, changes.get(number))
            partitions = logs.finish()
        return TopicImage(
            description,
            stamp.version,
            partitions=partitions,
            removed=removed,
            receipts=self._with_receipts(edit, stamp),
            vacuum_horizon_ms=max(self.vacuum_horizon_ms, edit.vacuum_horizon_ms or 0),
            receipts_before_ms=max(self.receipts_before_ms, edit.forget_receipts_before_ms or 0),
        )

    def _without_removed(
        self, edit: TopicEdit, changes: Mapping[int, SegmentChanges]
    ) -> "Map[SegmentKey, SegmentEntry]":
        if not edit.remove and not edit.forget:
            return self._removed
        with self._removed.mutate() as removed:
            for number, of_partition in changes.items():
                for entry in self.partition(number).live.find(of_partition.removed):
                    if not entry.is_shared:
                        removed[entry.key] = replace(entry, removed_ms=edit.removed_ms)
            for key in edit.forget:
                removed.pop(key, None)
            return removed.finish()

    def _with_receipts(self, edit: TopicEdit, stamp: Stamp) -> "Map[ReceiptKey, Receipt]":
        before_ms = edit.forget_receipts_before_ms
        if not edit.receipts and before_ms is None:
            return self._receipts
        with self._receipts.mutate() as receipts:
            if before_ms is not None:
                for key, one in self._receipts.items():
                    if not key.is_versioned and one.used_ms < before_ms:
                        del receipts[key]
            for key, one in edit.receipts.items():
                receipts[key] = one._replace(used_ms=stamp.timestamp_ms)
            return receipts.finish()

    def opened(self, content: "TopicImage") -> "TopicImage":
        """Return the topic opened: its content as of the fold, and the waiting edits applied."""
        topic = content
        for edit, stamp in self.waiting or ():
            topic = topic.apply(edit, stamp)
        topic.description, topic.version = self.description, self.version
        return topic


class SharedSegment(NamedTuple):
    """How many live slices a shared segment has, and since when it has none (None: it has some)."""

    slice_count: int
    unused_ms: int | None = None


class Image:
    """The metadata of a log dir as of one version."""

    def __init__(
        self,
        stamp: Stamp = NO_STAMP,
        *,
        topics: "Map[str, TopicImage]" = Map(),  # noqa: B008 - immutable
        leases: "Map[str, Lease]" = Map(),  # noqa: B008
        shared: "Map[str, SharedSegment]" = Map(),  # noqa: B008
        horizon_ms: int = 0,
        level: int = 1,
        fold: FoldEdit | None = None,
    ) -> None:
        self.stamp = stamp
        self.topics = topics
        self.leases = leases
        self.shared = shared
        self.horizon_ms = horizon_ms
        self.level = level
        self.fold = fold or FoldEdit(-1, -1, ())

    @property
    def version(self) -> int:
        """The version of the entry that was applied last; -1 before the first."""
        return self.stamp.version

    @cached_property
    def names(self) -> Mapping[str, TopicDescription]:
        """The topics that exist, by name, in name order."""
        alive = (topic.description for topic in self.topics.values() if topic.closed_ms is None)
        return {topic.name: topic for topic in sorted(alive, key=lambda topic: topic.name)}

    @cached_property
    def deleted(self) -> Sequence[TopicDescription]:
        """The deleted topics whose files may still be there."""
        topics = (topic.description for topic in self.topics.values())
        return [topic for topic in topics if topic.deleted_ms is not None]

    def topic(self, topic_id: str) -> TopicImage | None:
        """Return a topic, a deleted one too; None when there is none of this id (any more)."""
        return self.topics.get(topic_id)

    def apply(self, edits: Iterable[Edit], stamp: Stamp) -> "Image":
        """Return the image after one entry: its edits one after another, and its stamp."""
        image = self
        for edit in edits:
            image = image._applied(edit, stamp)
        if image is self:
            image = image._with()
        image.stamp = stamp
        return image

    def _with(self, **changes: object) -> "Image":
        fresh = Image.__new__(Image)
        keeps_names = "topics" not in changes and "names" in self.__dict__
        fresh.__dict__.update(self.__dict__)
        fresh.__dict__.update(changes)
        if not keeps_names:
            fresh.__dict__.pop("names", None)
            fresh.__dict__.pop("deleted", None)
        return fresh

    def _applied(self, edit: Edit, stamp: Stamp) -> "Image":
        topics, shared = self.topics, self.shared
        renamed = bool(edit.forget_topics)
        for topic_id, of_topic in edit.topics.items():
            known = topics.get(topic_id)
            if known is None:
                if of_topic.description is None:
                    raise UsageError(f"an edit of a topic that does not exist: {topic_id}")
                known = TopicImage(of_topic.description, stamp.version)
            renamed = renamed or of_topic.description is not None
            topics = topics.set(topic_id, known.apply(of_topic, stamp))
            shared = _shared_after(shared, of_topic, stamp)
        for topic_id in edit.forget_topics:
            topics = topics.delete(topic_id)
        for path in edit.forget_shared:
            if path in shared:
                shared = shared.delete(path)
        leases = self.leases
        for name, lease in edit.leases.items():
            if lease is not None:
                leases = leases.set(name, lease)
            elif name in leases:
                leases = leases.delete(name)
        fresh = self._with(
            topics=topics,
            shared=shared,
            leases=leases,
            horizon_ms=max(self.horizon_ms, edit.horizon_ms or 0),
            level=max(self.level, edit.level or 0),
        )
        if not renamed and "names" in self.__dict__:
            fresh.__dict__["names"] = self.names
        return fresh._folded(edit.fold) if edit.fold is not None else fresh

    def _folded(self, fold: FoldEdit) -> "Image":
        """Return the image with new runs; edits they cover wait no longer."""
        topics = self.topics
        for topic_id, topic in self.topics.items():
            if topic.waiting:
                rest = tuple(one for one in topic.waiting if one[1].version > fold.cover)
                if len(rest) < len(topic.waiting):
                    topics = topics.set(
                        topic_id, TopicImage(topic.description, topic.version, waiting=rest)
                    )
        return self._with(topics=topics, fold=fold, **self._names())

    def _names(self) -> dict[str, object]:
        return {"names": self.names} if "names" in self.__dict__ else {}

    def with_topics(self, topics: Mapping[str, TopicImage]) -> "Image":
        """Return the image with topics opened."""
        return self._with(topics=self.topics.update(topics), **self._names())


def _shared_after(
    shared: "Map[str, SharedSegment]", edit: TopicEdit, stamp: Stamp
) -> "Map[str, SharedSegment]":
    """Return the counts of slices after an edit of a topic."""
    added = [entry.log_path for entry in edit.segments if entry.is_shared]
    gone = [key.log_path for key in edit.remove if key.is_shared]
    for path in added:
        known = shared.get(path, SharedSegment(0))
        shared = shared.set(path, SharedSegment(known.slice_count + 1))
    for path in gone:
        count = shared.get(path, SharedSegment(1)).slice_count - 1
        unused_ms = stamp.timestamp_ms if count == 0 else None
        shared = shared.set(path, SharedSegment(count, unused_ms))
    return shared


def at_log_end(topic: TopicImage, pending: Sequence[SegmentEntry]) -> tuple[SegmentEntry, ...]:
    """Return `pending` with offsets given from the log end offset, in the order they stand.

    A pending segment counts its offsets from its file's base: base_offset == file_base_offset.
    """
    ends: dict[int, int] = {}
    placed = []
    for entry in pending:
        base = ends.get(entry.partition)
        if base is None:
            base = topic.partition(entry.partition).log_end_offset
        placed.append(replace(entry, base_offset=base, next_offset=base + entry.offset_span))
        ends[entry.partition] = base + entry.offset_span
    return tuple(placed)


def added_ranges(topic: TopicImage, edit: TopicEdit) -> tuple[OffsetRange, ...]:
    """Return the offsets that an edit's segments add to the log, a range a partition."""
    ends: dict[int, OffsetRange] = {}
    for entry in edit.segments:
        if entry.base_offset < topic.partition(entry.partition).log_end_offset:
            continue
        known = ends.get(entry.partition)
        start = known.start if known else entry.base_offset
        ends[entry.partition] = OffsetRange(entry.partition, start, entry.next_offset)
    return tuple(ends[partition] for partition in sorted(ends))
