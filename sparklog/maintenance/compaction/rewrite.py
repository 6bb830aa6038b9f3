"""Rewrites a group of segments as one sealed segment, without the records that compaction drops.

    windows of each segment, verified -> retain -> without spent markers
        -> SegmentFile and key index -> a row

Records keep their offsets and timestamps; dropped records leave gaps. The new segment covers the
offsets of all segments of the group. Nothing refers to it before the commit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.clock import Clock
from sparklog.errors import CorruptRecordError
from sparklog.log.key_index import KeyHashes
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log.windows import SegmentLog, Window, checked_windows, windows
from sparklog.log_reader.isolation import aborted_spans, is_aborted
from sparklog.log_reader.opened import damage_in, log_path, scanned_whole
from sparklog.log_writer import SegmentFile
from sparklog.maintenance.compaction.spent_markers import SpentMarkers
from sparklog.maintenance.compaction.superseded import KeyRows, KeySource, Suspects, key_records
from sparklog.metadata.catalog import PRODUCER_ID_EXPIRATION_MS, topic_directory
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription
from sparklog.record.batches import BatchTable
from sparklog.record.decode import decode
from sparklog.record.retain import Retained, Rules, retain_in_parts
from sparklog.record.up_convert import up_convert
from sparklog.storage.files import Files

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """The superseded records, and the suspects, that one bucket has found in a segment. Picklable.

    `superseded` has offsets - base offset.
    """

    segment: SegmentKey
    superseded: NDArray[np.uint32] | None = None
    suspects: Suspects | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewrite:
    """One group to be rewritten. Picklable."""

    files: Files
    clock: Clock
    topic: TopicDescription
    segments: Sequence[SegmentEntry]
    policy: RollPolicy
    end_offset: int
    """The end of the round: the last batch before it stays, even if only its header is left."""
    now_ms: int
    delete_retention_ms: int
    last_producers: frozenset[int] = frozenset()
    """Ids of producers without a batch in a later segment: of each the last batch stays, or its
    header."""

    @property
    def directory(self) -> str:
        """The topic's directory."""
        return topic_directory(self.topic)


def rewrite(work: Rewrite, found: Sequence[Found]) -> SegmentEntry | None:
    """Write the group's new segment, durably, and return its row; None if no record is left.

    `found` are the superseded records and the suspects of its segments, in any order. Raises
    CorruptRecordError naming file, position and offset, and the errors of storage.
    """
    output, markers = _Output(work), SpentMarkers(work.end_offset)
    try:
        last_batches = _last_batches(work)
        for entry in work.segments:
            dropped = _dropped(work, entry, [one for one in found if one.segment == entry.key])
            for window in _windows(work, entry, checked_windows):
                for retained in _retained(work, window, dropped, last_batches):
                    output.take(markers.without_spent(retained), entry)
        return output.close()
    except BaseException:
        output.abort()
        raise


def _windows(
    work: Rewrite, entry: SegmentEntry, of: Callable[[SegmentLog], Iterator[Window]] = windows
) -> Iterator[Window]:
    with damage_in(work.directory, entry):
        yield from of(scanned_whole(work.files, work.directory, entry))


def _dropped(work: Rewrite, entry: SegmentEntry, found: Sequence[Found]) -> Int64s:
    """Return the offsets of superseded records, as the file counts them, in ascending order."""
    deltas = [np.empty(0, np.int64)]
    deltas += [one.superseded.astype(np.int64) for one in found if one.superseded is not None]
    suspects = [one.suspects for one in found if one.suspects is not None]
    if suspects:
        deltas.append(_confirmed(work, entry, suspects))
    return np.sort(np.concatenate(deltas)) + entry.file_base_offset


def _confirmed(work: Rewrite, entry: SegmentEntry, suspects: Sequence[Suspects]) -> Int64s:
    """Return the offsets - base offset of suspects that have the suspected key."""
    deltas = np.concatenate([some.deltas for some in suspects])
    keys = pa.concat_arrays([some.keys for some in suspects])
    found = [np.empty(0, np.int64)]
    source = KeySource(files=work.files, directory=work.directory, entry=entry)
    for records in key_records(source):
        offsets = records.offset.to_numpy() - entry.base_offset
        row = np.minimum(np.searchsorted(offsets, deltas), len(offsets) - 1)
        here = np.flatnonzero(offsets[row] == deltas)
        is_same = pc.equal(
            records.key.take(pa.array(row[here])).cast(pa.large_binary()),
            keys.take(pa.array(here)),
        )
        found.append(deltas[here][is_same.fill_null(False).to_numpy(zero_copy_only=False)])
    return np.concatenate(found)


def _last_batches(work: Rewrite) -> Int64s:
    """Return the base offsets of the last data batches of producers that have not expired."""
    last: dict[int, int] = {}
    if not work.last_producers:
        return np.empty(0, np.int64)
    for entry in work.segments:
        for window in _windows(work, entry):
            batches = window.batches
            is_active = work.now_ms - batches.max_timestamp <= PRODUCER_ID_EXPIRATION_MS
            chosen = batches.take((batches.producer_id >= 0) & ~batches.is_control & is_active)
            offsets = (chosen.base_offset + entry.shift).tolist()
            last.update(zip(chosen.producer_id.tolist(), offsets, strict=True))
    return np.array([last[one] for one in sorted(work.last_producers & last.keys())], np.int64)


def _retained(
    work: Rewrite, window: Window, dropped: Int64s, last_batches: Int64s
) -> Iterator[Retained]:
    """Yield the records of a verified window that stay; message sets become batches of magic 2."""
    shift, path = window.entry.shift, log_path(work.directory, window.entry)
    rules_of = partial(_rules, work, window.entry, dropped, last_batches)
    try:
        for data, batches in up_convert(window.data, window.batches):
            yield from retain_in_parts(data, batches, rules_of, shift=shift)
    except CorruptRecordError as error:
        origin = window.entry.log_position + window.position
        raise error.in_file(path, origin, shift) from None


def _rules(
    work: Rewrite,
    entry: SegmentEntry,
    dropped: Int64s,
    last_batches: Int64s,
    batches: BatchTable,
) -> Rules:
    shift = entry.shift
    start, stop = np.searchsorted(dropped, [batches.base_offset[0], batches.last_offset[-1] + 1])
    ends_round = batches.last_offset + shift + 1 == work.end_offset
    return Rules(
        dropped=dropped[start:stop],
        aborted=is_aborted(batches, shift, aborted_spans([entry])),
        stays_empty=ends_round | np.isin(batches.base_offset + shift, last_batches),
        now_ms=work.now_ms,
        delete_retention_ms=work.delete_retention_ms,
    )


@dataclass(slots=True)
class _Output:
    """The new segment. Its file is created with the first batch: without a batch there is none."""

    work: Rewrite
    file: SegmentFile | None = None
    hashes: list[Int64s] = field(default_factory=lambda: [np.empty(0, np.int64)])
    deltas: list[Int64s] = field(default_factory=lambda: [np.empty(0, np.int64)])
    horizons: list[int] = field(default_factory=list)

    @property
    def base_offset(self) -> int:
        """The first offset that the new segment covers."""
        return self.work.segments[0].base_offset

    def take(self, retained: Retained, source: SegmentEntry) -> None:
        """Append the retained records of a window."""
        if not len(retained.batches):
            return
        if self.file is None:
            builder = SegmentBuilder(self.base_offset, source.partition, self.work.policy)
            now_ms = self.work.clock.now_ms()
            self.file = SegmentFile(self.work.files, self.work.topic, builder, now_ms)
        self.file.append(retained.batches, retained.data, min_timestamp=retained.min_timestamp)
        records = decode(retained.data, retained.batches, columns=("key", "offset"))
        rows = KeyRows.of(records, self.base_offset)
        self.hashes.append(rows.hashes)
        self.deltas.append(rows.deltas.astype(np.int64))
        if retained.delete_horizon_ms is not None:
            self.horizons.append(retained.delete_horizon_ms)

    def close(self) -> SegmentEntry | None:
        """Complete the files, durably, and return the row; None if there is no batch."""
        if self.file is None:
            return None
        last = self.work.segments[-1]
        entry = self.file.close(self.work.clock.now_ms(), next_offset=last.next_offset)
        keys = KeyHashes(np.concatenate(self.hashes), np.concatenate(self.deltas))
        entry = self.file.with_key_index(entry, keys)
        self.work.files.sync(self.file.paths)
        return entry._replace(
            # Kafka's cleaner also keeps the mtime of the last segment: retention may use it.
            created_ms=last.created_ms,
            delete_horizon_ms=min(self.horizons, default=None),
        )

    def abort(self) -> None:
        """Drop a file that is not complete."""
        if self.file is not None:
            self.file.abort()
