"""Writes one partition with a broker's layout: Kafka's names, sealed segments, indexes, epochs.

<base>.log                      written anew, with the log's offsets in its batches (no checksum
                                covers them); with `link` a hard link, if it is sealed and not the
                                newest
<base>.index  .timeindex        copies, or built; 0 bytes if they have no entry
<base>.txnindex                 aborted transactions whose marker is in the segment
<end>.log  <end>.txnindex       ABORT markers of open transactions, and commits (`commits_again`)
leader-epoch-checkpoint         the log's epochs, none above the target's
<end>.snapshot                  the log's producers that the target takes, at the end behind these

Segments that must be rewritten (slices of shared segments, and files with other offsets than the
log) are joined with such neighbours up to the topic's segment.bytes and segment.ms.

Leader epochs above the newest one of the target become this epoch, in the batches, too. A broker
drops the epochs above its own from its checkpoint. It then does not know where they end, and
refuses a follower whose last batch has one of them (UnifiedLog.lastOffsetForLeaderEpoch).
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from sparklog.errors import CorruptRecordError
from sparklog.indexes import indexes_of
from sparklog.interop.broker_files.checkpoints import LEADER_EPOCH, encode_epochs
from sparklog.interop.broker_files.producer_snapshot import SNAPSHOT_SUFFIX, encode_snapshot
from sparklog.interop.broker_files.txn_index import AbortedTxn, encode_txn_index
from sparklog.interop.epochs import epochs_from
from sparklog.interop.exports.abort_markers import AbortMarker, abort_markers, encode_abort
from sparklog.interop.exports.commits_again import CommitBatch
from sparklog.interop.exports.export_target import NEW, Target
from sparklog.interop.same_log import batch_at
from sparklog.interop.sequences import entry_of, state_by
from sparklog.interop.transactions import spans_of
from sparklog.log.indexer import INDEX_INTERVAL_BYTES, Indexer, Indexes
from sparklog.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_name,
)
from sparklog.log.windows import checked_windows, windows
from sparklog.log_reader.opened import damage_in, log_path, scanned_whole
from sparklog.metadata.state.edit import EpochStart
from sparklog.metadata.state.image import PartitionLog
from sparklog.metadata.state.producers import ProducerState
from sparklog.model import MAX_RELATIVE_OFFSET, SegmentEntry
from sparklog.record import layout
from sparklog.record.batches import (
    BatchTable,
    byte_view,
    with_epochs_at_most,
    with_offsets_raised,
)
from sparklog.record.scan import scan_batches
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles

Segment = Sequence[SegmentEntry]
"""One or more segments of this log, in offset order, that become one segment of a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRules:
    """The rules by which a topic's files are written.

    `check` verifies the copied batches; `link` makes hard links if possible, instead of copies;
    `durable` files will be synced. Segments are joined up to `segment_bytes` and `segment_ms`. No
    leader epoch is above the target's.
    """

    segment_bytes: int
    segment_ms: int
    check: bool = True
    link: bool = False
    durable: bool = False
    target: Target = NEW

    def lowered(self, epochs: Iterable[EpochStart]) -> list[EpochStart]:
        """Return epochs as they are written: of several that become one the first."""
        found: dict[int, EpochStart] = {}
        for epoch, start in epochs:
            lowered = min(epoch, self.target.newest_epoch)
            found.setdefault(lowered, EpochStart(lowered, start))
        return list(found.values())


@dataclass(slots=True)
class Exported:
    """The written files of one partition; `linked` counts the segments that are hard links.

    `end_offset` is the log end offset for the broker, behind the markers and commits.
    """

    segments: int = 0
    end_offset: int = 0
    linked: int = 0
    bytes: int = 0
    paths: list[str] = field(default_factory=list)


class PartitionExport:
    """Writes one partition's files into a directory that has none of them.

    `directory` is the topic's, in `files`; `target` is the partition's directory to write.
    """

    def __init__(
        self, files: Files, directory: str, target: LocalFiles, rules: ExportRules
    ) -> None:
        self._files = files
        self._directory = directory
        self._target = target
        self._rules = rules
        self._done = Exported()
        self._linked_below = 0

    def run(self, log: PartitionLog, commits: Sequence[CommitBatch] = ()) -> Exported:
        """Write the segments, in the order of their offsets, behind them `commits`, and the epochs.

        Raises CorruptRecordError naming the file, and MissingFileError; written files stay.
        """
        target = self._rules.target
        entries = log.entries(log.log_start_offset)
        lowered = [one.start_offset for one in log.epochs if one.epoch > target.newest_epoch]
        self._linked_below = min(lowered, default=log.log_end_offset)
        for segment in joined(entries, self._rules):
            self._segment(segment, is_newest=segment[-1].next_offset == log.log_end_offset)
        end = entries[-1].next_offset if entries else 0
        epochs = self._rules.lowered(epochs_from(log.epochs, log.log_start_offset))
        markers = abort_markers(self._files, self._directory, log)
        self._done.end_offset = log.log_end_offset
        if markers or commits or not entries or end < log.log_end_offset:
            # Also if the log end lies behind a gap, or if all segments have expired.
            self._end(markers, commits, epochs)
        self._write(LEADER_EPOCH, encode_epochs(epochs))
        if log.producers:
            # Without a snapshot a broker that was killed reads all producers from the batches.
            state_at = partial(self._state_at, entries)
            known = [one for one in log.producers.values() if target.takes(one, state_at)]
            name = segment_name(self._done.end_offset, None, SNAPSHOT_SUFFIX)
            self._write(name, encode_snapshot(sorted(map(entry_of, known))))
        return self._done

    def _state_at(self, entries: Sequence[SegmentEntry], offset: int) -> ProducerState | None:
        """Return the state of a producer by its batch that has an offset, or by the next batch."""
        slot = bisect_right(entries, offset, key=lambda one: one.next_offset)
        if slot == len(entries):
            return None
        found = batch_at(self._files, self._directory, entries[slot], offset)
        return None if found is None else state_by(found)

    def _end(
        self,
        markers: Sequence[AbortMarker],
        commits: Sequence[CommitBatch],
        epochs: Sequence[EpochStart],
    ) -> None:
        """Write a last segment that has only the markers and commits; it is empty without them."""
        self._done.segments += 1
        epoch = epochs[-1].epoch if epochs else 0
        base = offset = self._done.end_offset
        log, aborted = bytearray(), []
        for one in markers:
            log += encode_abort(one, offset, epoch)
            aborted.append(
                AbortedTxn(0, one.producer_id, one.first_offset, offset, one.first_offset)
            )
            offset += 1
        for some in commits:
            log += some.placed(offset, epoch)
            offset += len(some.records)
        self._done.end_offset = offset
        indexer = Indexer(base, INDEX_INTERVAL_BYTES)
        indexer.append(scan_batches(log).batches)
        indexes = indexer.finish()
        for suffix, data in (
            (LOG_SUFFIX, bytes(log)),
            (INDEX_SUFFIX, indexes.offset_index),
            (TIME_INDEX_SUFFIX, indexes.time_index),
            *([(TXN_INDEX_SUFFIX, encode_txn_index(aborted))] if aborted else []),
        ):
            self._write(segment_name(base, None, suffix), data)

    def _segment(self, segment: Segment, *, is_newest: bool) -> None:
        self._done.segments += 1
        self._done.bytes += sum(entry.log_bytes for entry in segment)
        base, end = segment[0].base_offset, segment[-1].next_offset
        name = segment_name(base, None, LOG_SUFFIX)
        is_rewritten = is_newest or is_moved(segment[0]) or not self._is_linked(segment[0], name)
        built = self._rewritten(segment, name) if is_rewritten else None
        self._done.paths.append(name)
        for suffix, data in self._indexes(segment, built):
            self._write(segment_name(base, None, suffix), data)
        spans = {span for entry in segment for span in spans_of(entry) if base <= span.last < end}
        if spans:
            # A last stable offset that is too low is safe: a broker only searches further.
            rows = [
                AbortedTxn(0, one.producer_id, one.first, one.last, one.first)
                for one in sorted(spans, key=lambda span: span.last)
            ]
            path = segment_name(base, None, TXN_INDEX_SUFFIX)
            self._write(path, encode_txn_index(rows))

    def _is_linked(self, entry: SegmentEntry, name: str) -> bool:
        path = log_path(self._directory, entry)
        if not self._rules.link or not isinstance(self._files, LocalFiles):
            return False
        if entry.next_offset > self._linked_below:
            return False  # its leader epochs are lowered
        found = self._files.stat(path)
        if found is None or found.bytes != entry.log_bytes:
            return False  # readers here stop at log_bytes, a broker reads to the file's end
        linked = self._target.link_from(os.path.join(self._files.uri, path), name)
        self._done.linked += linked
        return linked

    def _rewritten(self, segment: Segment, name: str) -> Indexes:
        """Write a `.log` with the log's offsets in its batches; return its indexes."""
        indexer = Indexer(segment[0].base_offset, INDEX_INTERVAL_BYTES)
        with self._target.create(name, durable=self._rules.durable) as file:
            for entry in segment:
                for data, batches in self._sealed(entry):
                    file.write(data)
                    indexer.append(batches)
        return indexer.finish()

    def _sealed(self, entry: SegmentEntry) -> Iterator[tuple[memoryview, BatchTable]]:
        """Yield a segment's bytes and batches, both with the log's offsets."""
        shift, newest = entry.shift, self._rules.target.newest_epoch
        with damage_in(self._directory, entry):
            walk = checked_windows if self._rules.check else windows
            for window in walk(scanned_whole(self._files, self._directory, entry)):
                batches = window.batches
                view = byte_view(window.data)[: int(batches.end_position[-1])]
                if shift:
                    if (batches.magic < layout.MAGIC_V2).any():
                        raise CorruptRecordError("a moved message set cannot be sealed")
                    view = with_offsets_raised(view, batches, shift)
                    batches = batches.raised(shift)
                yield with_epochs_at_most(view, batches, newest).data, batches

    def _indexes(self, segment: Segment, built: Indexes | None) -> Iterator[tuple[str, bytes]]:
        """Yield suffix and bytes of both indexes; their offsets are relative to the base offset."""
        entry = segment[0]
        has_own = entry.index_bytes is not None and entry.time_index_bytes is not None
        if len(segment) > 1 or entry.is_shared or not has_own:
            built = built or indexes_of(self._files, self._directory, entry, INDEX_INTERVAL_BYTES)
            yield INDEX_SUFFIX, built.offset_index
            yield TIME_INDEX_SUFFIX, built.time_index
            return
        for suffix, path in (
            (INDEX_SUFFIX, entry.index_path),
            (TIME_INDEX_SUFFIX, entry.time_index_path),
        ):
            data = b"" if path is None else self._files.read(f"{self._directory}/{path}")
            yield suffix, bytes(data)

    def _write(self, name: str, data: bytes) -> None:
        self._target.write_new(name, data, durable=self._rules.durable)
        self._done.paths.append(name)


def is_moved(entry: SegmentEntry) -> bool:
    """Whether a segment must be rewritten: a broker needs whole files with the log's offsets."""
    return entry.is_shared or entry.shift != 0


def joined(entries: Sequence[SegmentEntry], rules: ExportRules) -> Iterator[Segment]:
    """Yield the segments of a log in groups: each group becomes one segment of the broker."""
    segment: list[SegmentEntry] = []
    size = 0
    for entry in entries:
        if segment and not (
            is_moved(segment[0])
            and is_moved(entry)
            and size + entry.log_bytes <= rules.segment_bytes
            and entry.max_timestamp - segment[0].max_timestamp <= rules.segment_ms
            and entry.next_offset - segment[0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            yield segment
            segment, size = [], 0
        segment.append(entry)
        size += entry.log_bytes
    if segment:
        yield segment
