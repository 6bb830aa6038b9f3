"""One partition as a broker keeps it: canonical names, sealed segments, indexes, epochs.

<base>.log        hard link where it is sealed already and not the newest; else rewritten: the
                  base offset of every batch is moved, which no checksum covers
<base>.index  .timeindex        copies, of 0 bytes where there is no entry
<base>.txnindex                 aborted transactions whose marker lies in the segment
<end>.log  <end>.txnindex       ABORT markers of transactions that were open when imported
leader-epoch-checkpoint         from the batches
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparklog.errors import CorruptRecordError
from sparklog.interop.abort_markers import OpenTransaction, encode_abort, open_transactions
from sparklog.interop.checkpoints import LEADER_EPOCH, encode_epochs
from sparklog.interop.transactions import spans_of
from sparklog.interop.txn_index import TXN_INDEX_SUFFIX, AbortedTxn, encode_txn_index
from sparklog.log.indexer import INDEX_INTERVAL_BYTES
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name
from sparklog.log.windows import windows
from sparklog.log_reader.opened import log_path, scanned_whole
from sparklog.log_reader.rebuild import indexes_of
from sparklog.metadata.edit import PartitionState
from sparklog.model import SegmentEntry
from sparklog.record import layout
from sparklog.record.batches import byte_view, with_offsets_raised
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles


@dataclass(slots=True)
class Exported:
    """What was written of one partition: `linked` counts the hard links among the segments.

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
        self,
        files: Files,
        directory: str,
        target: LocalFiles,
        *,
        check: bool = True,
        durable: bool = False,
    ) -> None:
        self._files = files
        self._directory = directory
        self._target = target
        self._check = check
        self._durable = durable
        self._done = Exported()
        self._epochs: list[tuple[int, int]] = []

    def run(self, entries: Sequence[SegmentEntry], state: PartitionState) -> Exported:
        """Write the segments, in the order of their offsets, and the epochs.

        Raises CorruptRecordError naming the file and MissingFileError; what was written stays.
        """
        imported_end = state.imported_end_offset
        for number, entry in enumerate(entries):
            following = entries[number + 1].base_offset if number + 1 < len(entries) else None
            is_newest = following is None and entry.next_offset == state.log_end_offset
            self._segment(entry, imported_end, is_newest=is_newest)
        end = entries[-1].next_offset if entries else 0
        opened_at = open_transactions(self._files, self._directory, entries, imported_end)
        if opened_at or not entries or end < state.log_end_offset:
            # Where the log goes on behind a gap, or after everything has expired.
            self._end(state.log_end_offset, opened_at)
        self._done.end_offset = state.log_end_offset + len(opened_at)
        self._write(LEADER_EPOCH, encode_epochs(self._epochs))
        return self._done

    def _end(self, offset: int, opened_at: Sequence[OpenTransaction]) -> None:
        """Write a last segment that holds nothing but markers, if anything."""
        self._done.segments += 1
        epoch = self._epochs[-1][0] if self._epochs else 0
        places = list(enumerate(opened_at, offset))
        log = b"".join(encode_abort(one, at, epoch) for at, one in places)
        aborted = [AbortedTxn(0, one.producer_id, one.first, at, one.first) for at, one in places]
        for suffix, data in (
            (LOG_SUFFIX, log),
            (INDEX_SUFFIX, b""),
            (TIME_INDEX_SUFFIX, b""),
            *([(TXN_INDEX_SUFFIX, encode_txn_index(aborted))] if aborted else []),
        ):
            self._write(segment_name(offset, None, suffix), data)

    def _segment(self, entry: SegmentEntry, imported_end: int, *, is_newest: bool) -> None:
        self._done.segments += 1
        self._done.bytes += entry.log_bytes
        self._add_epochs(entry)
        name = segment_name(entry.base_offset, None, LOG_SUFFIX)
        if entry.shift or is_newest or not self._is_linked(entry, name):
            with self._target.create(name, durable=self._durable) as file:
                for data in self._sealed(entry):
                    file.write(data)
        self._done.paths.append(name)
        for suffix, data in self._indexes(entry):
            self._write(segment_name(entry.base_offset, None, suffix), data)
        ends = min(entry.next_offset, imported_end)
        aborted = [span for span in spans_of(entry) if span.last < ends]
        if aborted:
            # A low last stable offset makes a broker look further than it must, never too little.
            rows = [
                AbortedTxn(0, one.producer_id, one.first, one.last, one.first)
                for one in sorted(aborted, key=lambda span: span.last)
            ]
            path = segment_name(entry.base_offset, None, TXN_INDEX_SUFFIX)
            self._write(path, encode_txn_index(rows))

    def _is_linked(self, entry: SegmentEntry, name: str) -> bool:
        path = log_path(self._directory, entry)
        if not isinstance(self._files, LocalFiles):
            return False
        found = self._files.stat(path)
        if found is None or found.bytes != entry.log_bytes:
            return False  # a reader stops where the manifest says, a broker at the file's end
        linked = self._target.link_from(os.path.join(self._files.uri, path), name)
        self._done.linked += linked
        return linked

    def _sealed(self, entry: SegmentEntry) -> Iterator[bytes | memoryview]:
        """The bytes of a `.log` with the log's offsets in its batches."""
        try:
            for window in windows(scanned_whole(self._files, self._directory, entry)):
                if self._check:
                    window.verify(window.batches)
                end = int(window.batches.end_position[-1])
                view = byte_view(window.data)[:end]
                if not entry.shift:
                    yield view.data
                    continue
                if (window.batches.magic < layout.MAGIC_V2).any():
                    raise CorruptRecordError("a message set that was moved cannot be sealed")
                yield with_offsets_raised(view, window.batches, entry.shift).data
        except CorruptRecordError as error:
            raise error.in_file(log_path(self._directory, entry)) from None

    def _indexes(self, entry: SegmentEntry) -> Iterator[tuple[str, bytes]]:
        """The two index files: their entries count from the segment's base, wherever it lies."""
        if entry.index_bytes is None or entry.time_index_bytes is None:
            built = indexes_of(self._files, self._directory, entry, INDEX_INTERVAL_BYTES)
            yield INDEX_SUFFIX, built.offset_index
            yield TIME_INDEX_SUFFIX, built.time_index
            return
        for suffix, path in (
            (INDEX_SUFFIX, entry.index_path),
            (TIME_INDEX_SUFFIX, entry.time_index_path),
        ):
            data = b"" if path is None else self._files.read(f"{self._directory}/{path}")
            yield suffix, bytes(data)

    def _add_epochs(self, entry: SegmentEntry) -> None:
        """Note where a new leader epoch begins; segments that cannot have one are not read."""
        newest = self._epochs[-1][0] if self._epochs else -1
        if entry.max_leader_epoch is not None and entry.max_leader_epoch <= newest:
            return
        for window in windows(scanned_whole(self._files, self._directory, entry)):
            epochs = np.maximum.accumulate(np.maximum(window.batches.leader_epoch, newest))
            risen = np.flatnonzero(np.diff(epochs, prepend=newest) > 0)
            offsets = window.batches.base_offset[risen] + entry.shift
            if not self._epochs:
                # Compaction may have taken what the epoch began with.
                offsets[:1] = entry.base_offset
            self._epochs += zip(epochs[risen].tolist(), offsets.tolist(), strict=True)
            newest = int(epochs[-1])

    def _write(self, name: str, data: bytes) -> None:
        self._target.write_new(name, data, durable=self._durable)
        self._done.paths.append(name)
