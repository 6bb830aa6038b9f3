"""One version of a topic, read whole as docs/format.md describes it, and asked by looking at all.

It shares no code with sparklog.metadata.state.image, sparklog.log and sparklog.log_reader: every
edit of every entry, every byte of every live segment, one after the other.
"""

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import TopicEdit
from sparklog.model import SegmentEntry, SegmentKey
from sparklog.storage import open_files
from tests.naive import log
from tests.naive.decode import BATCH_HEADER, read_batch

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


class Batch(NamedTuple):
    """A record batch as it lies in its file: offsets are the file's own."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    records: tuple[log.Record, ...]


@cache
def batches_of(path: Path, first: int, size: int) -> tuple[Batch, ...]:
    """The batches of a slice of a `.log`; no file ever changes."""
    data, at, found = path.read_bytes()[first : first + size], 0, []
    while at < len(data):
        base, length, *_ = fields = BATCH_HEADER.unpack_from(data, at)
        batch = data[at : at + 12 + length]
        records = tuple(log.Record(one.offset, one.timestamp) for one in read_batch(batch))
        found.append(Batch(at, len(batch), base, base + fields[6], records))
        at += len(batch)
    return tuple(found)


def newest_version(log_dir: Path) -> int:
    """The version that was committed last."""
    entries = log_dir / "__cluster_metadata" / "_delta_log"
    return max(int(path.stem) for path in entries.glob("*.json") if path.stem.isdigit())


class NaiveTopic:
    """The only topic of a log dir, as one version of the metadata log has it."""

    def __init__(self, log_dir: Path, directory: str, version: int) -> None:
        self._log_dir, self._name = log_dir, directory
        self._segments: dict[SegmentKey, SegmentEntry] = {}
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        found = Catalog(open_files(str(log_dir))).log
        for number in range(version + 1):
            entry = found.entries.read(number)
            assert entry is not None
            for edit in entry.edits:
                for one in edit.topics.values():
                    self._apply(one)

    def _apply(self, edit: TopicEdit) -> None:
        for key in edit.remove:
            del self._segments[key]
        for one in (*edit.segments, *edit.replace):
            self._segments[one.key] = one
            self._ends[one.partition] = max(self.end(one.partition), one.next_offset)
        for number, state in edit.partitions.items():
            self._starts[number] = max(self.start(number), state.log_start_offset)
            self._ends[number] = max(self.end(number), state.log_end_offset)

    def start(self, partition: int) -> int:
        """The log start offset."""
        return self._starts.get(partition, 0)

    def end(self, partition: int) -> int:
        """The log end offset."""
        return self._ends.get(partition, 0)

    def _batches(self, partition: int) -> Iterator[tuple[SegmentEntry, Batch]]:
        """Every batch that is live, with its segment."""
        mine = [one for one in self._segments.values() if one.partition == partition]
        for entry in sorted(mine, key=lambda entry: entry.base_offset):
            path = self._log_dir / self._path(entry)
            for batch in batches_of(path, entry.log_position, entry.log_bytes):
                yield entry, batch

    def _path(self, entry: SegmentEntry) -> str:
        is_shared = entry.log_path.startswith("__shared/")
        return entry.log_path if is_shared else f"{self._name}/{entry.log_path}"

    def _records(self, partition: int) -> list[log.Record]:
        return [
            log.Record(one.offset + entry.base_offset - entry.file_base_offset, one.timestamp)
            for entry, batch in self._batches(partition)
            for one in batch.records
        ]

    def list_offset(self, partition: int, timestamp: int) -> tuple[int, int]:
        """ListOffsets: the offset and the timestamp."""
        if timestamp == LATEST:
            return self.end(partition), -1
        start = self.start(partition)
        if timestamp == EARLIEST:
            return start, -1
        records = [one for one in self._records(partition) if one.offset >= start]
        if timestamp == MAX_TIMESTAMP:
            found = log.newest(records)
        else:
            found = log.first_at_or_after(records, timestamp, start)
        return found.offset, found.timestamp

    def place(self, partition: int, offset: int) -> dict[str, Any] | int:
        """Where an offset lies, as the service says it; the error_code where it lies nowhere."""
        if not self.start(partition) <= offset < self.end(partition):
            return 40002
        for entry, batch in self._batches(partition):
            shift = entry.base_offset - entry.file_base_offset
            if batch.last_offset + shift >= offset:
                left = [one for one in batch.records if one.offset + shift >= offset]
                found = left[0] if left else log.Record(-1 - shift, -1)
                return {
                    "offset": found.offset + shift,
                    "timestamp": found.timestamp,
                    "segment_base_offset": entry.base_offset,
                    "segment_next_offset": entry.next_offset,
                    "file_base_offset": entry.file_base_offset,
                    "sealed": shift == 0,
                    "log": {
                        "path": self._path(entry),
                        "position": entry.log_position,
                        "bytes": entry.log_bytes,
                    },
                    "index_entry": self._index_entry(entry, offset - shift),
                    "position": batch.position,
                    "batch_bytes": batch.size,
                    "batch_base_offset": batch.base_offset + shift,
                    "batch_last_offset": batch.last_offset + shift,
                }
        return 40404

    def _index_entry(self, entry: SegmentEntry, offset: int) -> dict[str, Any] | None:
        base = entry.file_base_offset
        if entry.index_path is None:
            return None
        path = f"{self._name}/{entry.index_path}"
        pairs = struct.iter_unpack(">ii", (self._log_dir / path).read_bytes())
        absolute = [(base + relative, position) for relative, position in pairs]
        found = log.floor_offset(absolute, base, offset)
        if not found.position:
            return None
        return {"path": path, "offset": found.offset, "position": found.position}
