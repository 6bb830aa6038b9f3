"""Copies several segments into one sealed segment; a task of `merge_segments`.

input     batch │ batch │ …            offsets count from the file base offset
          base offset += shift         the first 8 bytes, which the checksum does not cover
output    batch │ batch │ … of all     offsets of the log: the segment is sealed
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sparklog.clock import Clock
from sparklog.errors import CorruptRecordError
from sparklog.log.key_index import KeyHashes
from sparklog.log.merge import Group
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log.windows import Window, checked_windows
from sparklog.log_reader.key_hashes import key_hashes
from sparklog.log_reader.opened import damage_in, scanned_whole
from sparklog.log_writer.segment_file import SegmentFile
from sparklog.maintenance.merging.joined_slices import joined, runs
from sparklog.maintenance.merging.spans import Spans
from sparklog.metadata.catalog import topic_directory
from sparklog.model import AbortedRange, SegmentEntry, TopicDescription
from sparklog.record import layout
from sparklog.record.batches import Buffer, byte_view, with_offsets_raised
from sparklog.storage.files import Files

INDEX_FIELDS: Final = ("index_path", "index_bytes", "time_index_path", "time_index_bytes")
"""The fields of the offset index and the time index. The others describe the log, or name the key
index, which a merge reads: a new one is a conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeWork:
    """The work of a task: to make one segment from a group."""

    files: Files
    clock: Clock
    topic: TopicDescription
    group: Group
    index_interval_bytes: int
    spans: Spans | None = None
    """Reads the slices of this and of other groups together; None: those of this group alone."""


def merged(work: MergeWork) -> SegmentEntry:
    """Write a group as one sealed, indexed segment, durably; return its row, not yet committed.

    Verifies the checksum of every batch, and of each whole log if its row has a CRC-32C. Raises
    CorruptRecordError naming file, position and offset, MissingFileError, and the errors of
    writing; then the incomplete file is dropped.
    """
    first, last = work.group[0], work.group[-1]
    policy = RollPolicy(index_interval_bytes=work.index_interval_bytes)
    builder = SegmentBuilder(first.base_offset, first.partition, policy)
    target = SegmentFile(work.files, work.topic, builder, work.clock.now_ms())
    try:
        for run in runs(work.group):
            _append(work, run, target)
    except BaseException:
        target.abort()
        raise
    row = target.close(work.clock.now_ms(), next_offset=last.next_offset)
    row = _completed(row, work.group)
    if first.key_index_path is not None:
        directory = topic_directory(work.topic)
        row = target.with_key_index(row, _keys(work.files, directory, work.group))
    work.files.sync(target.paths)
    return row


def same_log(entry: SegmentEntry, other: SegmentEntry) -> bool:
    """Whether two rows agree in everything but the offset index and the time index."""
    return entry == other or _without_indexes(entry) == _without_indexes(other)


def _without_indexes(entry: SegmentEntry) -> SegmentEntry:
    values = zip(SegmentEntry._fields, entry, strict=True)
    return SegmentEntry._make(None if name in INDEX_FIELDS else value for name, value in values)


def _append(work: MergeWork, run: Sequence[SegmentEntry], target: SegmentFile) -> None:
    """Copy a run: joined if it has several sound slices, else one by one."""
    found = joined(work.spans or Spans(work.files, [run]), run) if len(run) > 1 else None
    if found is not None:
        target.append(found.batches, found.data, min_timestamp=found.min_timestamp)
        return
    for entry in run:
        _copy(work, entry, target)


def _copy(work: MergeWork, entry: SegmentEntry, target: SegmentFile) -> None:
    directory = topic_directory(work.topic)
    with damage_in(directory, entry):
        for window in checked_windows(scanned_whole(work.files, directory, entry)):
            size = int(window.batches.end_position[-1])
            raised = window.batches.raised(entry.shift)
            target.append(raised, _moved(window, size), min_timestamp=entry.min_timestamp)


def _moved(window: Window, size: int) -> Buffer:
    """Return a window's bytes with the log's offsets; unchanged for a sealed segment."""
    source = byte_view(window.data)
    if window.entry.shift == 0:
        return source[:size]
    _refuse_absolute(window)
    return with_offsets_raised(source, window.batches, window.entry.shift)


def _refuse_absolute(window: Window) -> None:
    """Raise CorruptRecordError if a compressed entry of magic 0 would get other offsets.

    Its inner messages have absolute offsets, which cannot be changed without decompressing.
    """
    batches = window.batches
    absolute = np.flatnonzero(batches.is_wrapper & (batches.magic == layout.MAGIC_V0))
    if len(absolute):
        slot = int(absolute[0])
        raise CorruptRecordError(
            "a compressed entry of magic 0 in a segment that is not sealed",
            position=window.position + int(batches.position[slot]),
            offset=int(batches.base_offset[slot]) + window.entry.shift,
        )


def _keys(files: Files, directory: str, group: Group) -> KeyHashes:
    """Return the key hashes of a group; offsets are relative to the first base offset."""
    parts = [key_hashes(files, directory, entry) for entry in group]
    deltas = [
        part.deltas + (entry.base_offset - group[0].base_offset)
        for part, entry in zip(parts, group, strict=True)
    ]
    return KeyHashes(np.concatenate([part.hashes for part in parts]), np.concatenate(deltas))


def _completed(row: SegmentEntry, group: Group) -> SegmentEntry:
    """Return the row with the fields that follow from the group's rows, not from the batches."""
    horizons = [e.delete_horizon_ms for e in group if e.delete_horizon_ms is not None]
    return row._replace(
        record_count=_known(row.record_count, [entry.record_count for entry in group]),
        aborted=aborted_of(group),
        delete_horizon_ms=min(horizons, default=None),
        created_ms=created_ms_of(group),
    )


def created_ms_of(group: Group) -> int:
    """Return the time (ms) at which the merged segment counts as created.

    It is the oldest time: `segment.ms`, `sparklog.shared.segment.max.age.ms` and the lag of a table
    do not begin again. Without timestamps it is the newest time, because retention uses it then
    (Cleaner.cleanSegments).
    """
    has_timestamps = any(entry.max_timestamp >= 0 for entry in group)
    return (min if has_timestamps else max)(entry.created_ms for entry in group)


def _known(count: int | None, counts: Sequence[int | None]) -> int | None:
    """Return `count`; if it is None, the sum of `counts`: headers of message sets have no count."""
    known = [each for each in counts if each is not None]
    return sum(known) if count is None and len(known) == len(counts) else count


def aborted_of(group: Group) -> tuple[AbortedRange, ...]:
    """Return the aborted spans relative to the first segment's base offset, each span once."""
    first = group[0].base_offset
    spans = {
        AbortedRange(span.producer_id, span.first_delta + by, span.last_delta + by)
        for entry in group
        for by in [entry.base_offset - first]
        for span in entry.aborted
    }
    return tuple(sorted(spans, key=lambda span: (span.last_delta, span)))
