"""One partition as a broker keeps it: canonical names, sealed segments, indexes, epochs.

<base>.log        hard link where it is sealed already and not the newest; else rewritten: the
                  base offset of every batch is moved, which no checksum covers
<base>.index  .timeindex        copies, of 0 bytes where there is no entry; or built
<base>.txnindex                 aborted transactions whose marker lies in the segment
<end>.log  <end>.txnindex       ABORT markers of transactions that are open
leader-epoch-checkpoint         the log's epochs
<end>.snapshot                  its producers, if it has any, behind the markers

Segments that are rewritten are joined: small neighbours, and slices of shared segments, become one
segment as long as the topic's segment.bytes and segment.ms allow.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sparklog.config import TopicConfig
from sparklog.errors import CorruptRecordError
from sparklog.interop.abort_markers import AbortMarker, abort_markers, encode_abort
from sparklog.interop.checkpoints import LEADER_EPOCH, encode_epochs
from sparklog.interop.epochs import epochs_from
from sparklog.interop.producer_snapshot import SNAPSHOT_SUFFIX, encode_snapshot
from sparklog.interop.sequences import entry_of
from sparklog.interop.transactions import spans_of
from sparklog.interop.txn_index import TXN_INDEX_SUFFIX, AbortedTxn, encode_txn_index
from sparklog.log.indexer import INDEX_INTERVAL_BYTES, Indexer, Indexes
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name
from sparklog.log.windows import windows
from sparklog.log_reader.opened import log_path, scanned_whole
from sparklog.log_reader.rebuild import indexes_of
from sparklog.metadata.edit import EpochStart
from sparklog.metadata.image import PartitionLog
from sparklog.model import MAX_RELATIVE_OFFSET, SegmentEntry
from sparklog.record import layout
from sparklog.record.batches import BatchTable, byte_view, with_offsets_raised
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles

Segment = Sequence[SegmentEntry]
"""One or more segments of ours, in offset order, that become one segment of a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRules:
    """The rules by which a topic's files are written.

    `check` verifies the copied batches; `link` makes hard links where it can, not copies; files
    that will be synced are `durable`. Segments are joined up to `segment_bytes` and `segment_ms`.
    """

    segment_bytes: int
    segment_ms: int
    check: bool = True
    link: bool = False
    durable: bool = False

    @classmethod
    def of(cls, config: TopicConfig, *, check: bool, link: bool, durable: bool) -> "ExportRules":
        """Return the rules of a topic with these configs."""
        return cls(
            segment_bytes=config.segment_bytes,
            segment_ms=config.max_segment_ms,
            check=check,
            link=link,
            durable=durable,
        )


@dataclass(slots=True)
class Exported:
    """The files written of one partition: `linked` counts hard links among the segments.

    `end_offset` is where the log ends for a broker: markers behind it take an offset each.
    """

    segments: int = 0
    end_offset: int = 0
    linked: int = 0
    bytes: int = 0
    paths: list[str] = field(default_factory=list)


class PartitionExport:
    """Writes one partition's files into a directory that holds none of them.

    `directory` is that of the topic, in `files`; `target` the partition's, as files of its own.
    """

    def __init__(
        self, files: Files, directory: str, target: LocalFiles, rules: ExportRules
    ) -> None:
        self._files = files
        self._directory = directory
        self._target = target
        self._rules = rules
        self._done = Exported()

    def run(self, log: PartitionLog) -> Exported:
        """Write the segments, in the order of their offsets, and the epochs.

        Raises CorruptRecordError naming the file and MissingFileError; what was written stays.
        """
        entries = log.entries(log.log_start_offset)
        for segment in joined(entries, self._rules):
            self._segment(segment, is_newest=segment[-1].next_offset == log.log_end_offset)
        end = entries[-1].next_offset if entries else 0
        epochs = epochs_from(log.epochs, log.log_start_offset)
        markers = abort_markers(self._files, self._directory, log)
        if markers or not entries or end < log.log_end_offset:
            # Where the log goes on behind a gap, or after everything has expired.
            self._end(log.log_end_offset, markers, epochs)
        self._done.end_offset = log.log_end_offset + len(markers)
        self._write(LEADER_EPOCH, encode_epochs(epochs))
        if log.producers:
            states = [entry_of(one) for one in log.producers.values()]
            name = segment_name(self._done.end_offset, None, SNAPSHOT_SUFFIX)
            self._write(name, encode_snapshot(sorted(states)))
        return self._done

    def _end(
        self, offset: int, markers: Sequence[AbortMarker], epochs: Sequence[EpochStart]
    ) -> None:
        """Write a last segment that holds nothing but markers, if anything."""
        self._done.segments += 1
        epoch = epochs[-1].epoch if epochs else 0
        numbered = list(enumerate(markers, offset))
        log = b"".join(encode_abort(one, at, epoch) for at, one in numbered)
        aborted = [
            AbortedTxn(0, one.producer_id, one.first_offset, at, one.first_offset)
            for at, one in numbered
        ]
        for suffix, data in (
            (LOG_SUFFIX, log),
            (INDEX_SUFFIX, b""),
            (TIME_INDEX_SUFFIX, b""),
            *([(TXN_INDEX_SUFFIX, encode_txn_index(aborted))] if aborted else []),
        ):
            self._write(segment_name(offset, None, suffix), data)

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
            # A low last stable offset makes a broker look further than it must, never too little.
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
        found = self._files.stat(path)
        if found is None or found.bytes != entry.log_bytes:
            return False  # a reader stops where the log's metadata says, a broker at the file's end
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
        shift = entry.shift
        try:
            for window in windows(scanned_whole(self._files, self._directory, entry)):
                batches = window.batches
                if self._rules.check:
                    window.verify(batches)
                view = byte_view(window.data)[: int(batches.end_position[-1])]
                if shift:
                    if (batches.magic < layout.MAGIC_V2).any():
                        raise CorruptRecordError("a message set that was moved cannot be sealed")
                    view = with_offsets_raised(view, batches, shift)
                    batches = replace(
                        batches,
                        base_offset=batches.base_offset + shift,
                        last_offset=batches.last_offset + shift,
                    )
                yield view.data, batches
        except CorruptRecordError as error:
            raise error.in_file(log_path(self._directory, entry), entry.log_position) from None

    def _indexes(self, segment: Segment, built: Indexes | None) -> Iterator[tuple[str, bytes]]:
        """The two index files: their entries count from the segment's base, wherever it lies."""
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
    """Whether a segment must be rewritten: a broker takes whole files, numbered as they lie."""
    return entry.is_shared or entry.shift != 0


def joined(entries: Sequence[SegmentEntry], rules: ExportRules) -> Iterator[Segment]:
    """Cut a log into the segments that a broker gets, of the segments that it consists of."""
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
