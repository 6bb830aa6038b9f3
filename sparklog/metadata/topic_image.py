"""TopicImage: one topic as of one version.

A topic that was not asked for is *closed to view*: its description is known, its partitions are
not. Edits of it wait, and are applied when the log opens it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa
from immutables import Map

from sparklog.errors import UsageError
from sparklog.log.segments import SegmentList
from sparklog.metadata.edit import ALL_FILES_MS, Receipt, ReceiptKey, Stamp, TopicEdit
from sparklog.metadata.partition_log import PartitionLog, SegmentChanges, changes_by_partition
from sparklog.metadata.segments import NO_ROWS
from sparklog.model import OffsetRange, SegmentEntry, SegmentKey, TopicDescription

Waiting = tuple[tuple[TopicEdit, Stamp], ...]
"""Edits that are not applied yet, and the places of their entries."""


@dataclass(frozen=True, slots=True, eq=False)
class TopicContent:
    """The parts of a topic; of a topic that is closed to view only the two times are known.

    Files born before `vacuum_horizon_ms` may be gone; receipts of keys last used before
    `receipts_before_ms` are forgotten.
    """

    partitions: Map[int, PartitionLog] = Map()
    removed: Map[SegmentKey, SegmentEntry] = Map()
    receipts: Map[ReceiptKey, Receipt] = Map()
    vacuum_horizon_ms: int = 0
    receipts_before_ms: int = 0


NO_CONTENT: Final = TopicContent()


class TopicImage:
    """One topic as of one version. `version` is that of the last entry that touched it.

    `waiting` holds the edits since the fold while the topic is closed to view, None once it is
    open: until then only the description can be asked for.
    """

    def __init__(
        self,
        description: TopicDescription,
        version: int,
        content: TopicContent = NO_CONTENT,
        waiting: Waiting | None = None,
    ) -> None:
        self.description = description
        self.version = version
        self.waiting = waiting
        self._content = content

    @property
    def is_open(self) -> bool:
        """Whether partitions, segments and receipts can be asked for."""
        return self.waiting is None

    @property
    def closed_ms(self) -> int | None:
        """When the topic was deleted; None while it lives."""
        return self.description.deleted_ms

    @property
    def is_erased(self) -> bool:
        """Whether vacuum has begun to erase the topic's files, so that it cannot come back."""
        return self.vacuum_horizon_ms == ALL_FILES_MS

    @property
    def content(self) -> TopicContent:
        """The parts of the topic. Raises UsageError while it is closed to view."""
        if self.waiting is not None:
            name = self.description.name
            raise UsageError(f"topic {name!r} is closed to view: ask the metadata log to open it")
        return self._content

    def partition(self, partition: int) -> PartitionLog:
        """Return a partition's log; a partition never written to is empty."""
        found = self.content.partitions.get(partition)
        return found or PartitionLog(f"{self.description.name}-{partition}", partition)

    @property
    def partitions(self) -> Mapping[int, PartitionLog]:
        """The logs of the partitions that were ever written to."""
        return self.content.partitions

    @property
    def removed(self) -> Collection[SegmentEntry]:
        """Removed segments whose files may still be there, in no order."""
        return list(self.content.removed.values())

    @property
    def receipts(self) -> Mapping[ReceiptKey, Receipt]:
        """The answers of writes that land once."""
        return self.content.receipts

    @property
    def vacuum_horizon_ms(self) -> int:
        """Files of the topic that were born before may be gone."""
        return self._content.vacuum_horizon_ms

    @property
    def receipts_before_ms(self) -> int:
        """Receipts of keys last used before are forgotten."""
        return self._content.receipts_before_ms

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

    def apply(self, edit: TopicEdit, stamp: Stamp) -> "TopicImage":
        """Return the topic after one edit of it."""
        description = edit.description or self.description
        if self.waiting is not None:
            content = _with_horizons(self._content, edit, stamp)
            return TopicImage(description, stamp.version, content, (*self.waiting, (edit, stamp)))
        return TopicImage(description, stamp.version, self._after(edit, stamp))

    def opened(self, content: TopicContent) -> "TopicImage":
        """Return the topic opened: its content as of the fold, and the waiting edits applied."""
        topic = TopicImage(self.description, self.version, content)
        for edit, stamp in self.waiting or ():
            topic = topic.apply(edit, stamp)
        return TopicImage(self.description, self.version, topic.content)

    def without_folded(self, cover: int) -> "TopicImage":
        """Return the topic, still closed, without the waiting edits that a fold covers."""
        rest = tuple(one for one in self.waiting or () if one[1].version > cover)
        return TopicImage(self.description, self.version, self._content, rest)

    def _after(self, edit: TopicEdit, stamp: Stamp) -> TopicContent:
        changes = changes_by_partition(edit)
        logs = self.content.partitions.mutate()
        for number in {*changes, *edit.partitions, *edit.transactions, *edit.epochs}:
            logs[number] = self.partition(number).apply(edit, changes.get(number))
        content = TopicContent(
            logs.finish(),
            self._removed_after(edit, changes),
            self._receipts_after(edit, stamp),
            self.vacuum_horizon_ms,
            self.receipts_before_ms,
        )
        return _with_horizons(content, edit, stamp)

    def _removed_after(
        self, edit: TopicEdit, changes: Mapping[int, SegmentChanges]
    ) -> Map[SegmentKey, SegmentEntry]:
        if not edit.remove and not edit.forget:
            return self.content.removed
        removed = self.content.removed.mutate()
        for number, of_partition in changes.items():
            for entry in self.partition(number).live.find(of_partition.removed):
                if not entry.is_shared:
                    removed[entry.key] = entry._replace(removed_ms=edit.removed_ms)
        for key in edit.forget:
            removed.pop(key, None)
        return removed.finish()

    def _receipts_after(self, edit: TopicEdit, stamp: Stamp) -> Map[ReceiptKey, Receipt]:
        known, before_ms = self.content.receipts, _forgets_before(edit, stamp)
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
    """Return before when receipts are forgotten: never later than the entry itself.

    So no receipt of a later entry is ever among them.
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
    """Return `pending` with offsets given from the log end offset, in the order they stand.

    A pending segment counts its offsets from its file's base: base_offset == file_base_offset.
    """
    ends: dict[int, int] = {}
    placed = []
    for entry in pending:
        base = ends.get(entry.partition)
        if base is None:
            base = topic.partition(entry.partition).log_end_offset
        placed.append(entry._replace(base_offset=base, next_offset=base + entry.offset_span))
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


def shared_slices(topic: TopicImage) -> Sequence[SegmentKey]:
    """Return the keys of the topic's live slices of shared segments.

    An edit that forgets the topic must remove them, or the shared segments would count them for
    ever.
    """
    found = []
    for log in topic.partitions.values():
        paths = log.live.table.column("log_path").to_pylist()
        if any(SegmentKey(log.partition, path).is_shared for path in paths):
            found += [entry.key for entry in log.entries() if entry.is_shared]
    return found
