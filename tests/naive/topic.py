"""One version of a topic, read whole as docs/format.md describes it, and asked by looking at all.

It shares no code with sparklog.manifest, sparklog.log and sparklog.log_reader: every row of the
table, every byte of every live segment, one after the other.
"""

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from deltalake import DeltaTable

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
def batches_of(path: Path) -> tuple[Batch, ...]:
    """The batches of a `.log`; no file ever changes."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        base, length, *_ = fields = BATCH_HEADER.unpack_from(data, at)
        batch = data[at : at + 12 + length]
        records = tuple(log.Record(one.offset, one.timestamp) for one in read_batch(batch))
        found.append(Batch(at, len(batch), base, base + fields[6], records))
        at += len(batch)
    return tuple(found)


def newest_version(directory: Path) -> int:
    """The version of the manifest that was committed last."""
    return max(int(path.stem) for path in (directory / "manifest" / "_delta_log").glob("*.json"))


class NaiveTopic:
    """A topic in `directory` of `log_dir`, as one version of its manifest has it."""

    def __init__(self, log_dir: Path, directory: str, version: int) -> None:
        self._log_dir, self._name = log_dir, directory
        manifest = log_dir / directory / "manifest"
        names = [uri.rpartition("/")[2] for uri in DeltaTable(manifest, version).file_uris()]
        rows = [row for name in names for row in pq.read_table(manifest / name).to_pylist()]
        self._states = [row for row in rows if row["kind"] == "partition"]
        self._segments = [row for row in rows if row["kind"] == "segment"]

    def start(self, partition: int) -> int:
        """The log start offset."""
        mine = [row for row in self._states if row["partition"] == partition]
        return max((row["log_start_offset"] for row in mine), default=0)

    def end(self, partition: int) -> int:
        """The log end offset."""
        states = [row for row in self._states if row["partition"] == partition]
        segments = [row for row in self._segments if row["partition"] == partition]
        ends = [row["log_end_offset"] for row in states]
        return max([*ends, *(row["next_offset"] for row in segments)], default=0)

    def _batches(self, partition: int) -> Iterator[tuple[dict[str, Any], Batch]]:
        """Every batch that is live, with its segment's row."""
        live = [row for row in self._segments if row.get("removed_ms") is None]
        mine = [row for row in live if row["partition"] == partition]
        for row in sorted(mine, key=lambda row: row["base_offset"]):
            for batch in batches_of(self._log_dir / self._name / row["log_path"]):
                yield row, batch

    def _records(self, partition: int) -> list[log.Record]:
        return [
            log.Record(one.offset + row["base_offset"] - row["file_base_offset"], one.timestamp)
            for row, batch in self._batches(partition)
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
        for row, batch in self._batches(partition):
            shift = row["base_offset"] - row["file_base_offset"]
            if batch.last_offset + shift >= offset:
                left = [one for one in batch.records if one.offset + shift >= offset]
                found = left[0] if left else log.Record(-1 - shift, -1)
                return {
                    "offset": found.offset + shift,
                    "timestamp": found.timestamp,
                    "segment_base_offset": row["base_offset"],
                    "segment_next_offset": row["next_offset"],
                    "file_base_offset": row["file_base_offset"],
                    "sealed": shift == 0,
                    "log": {"path": f"{self._name}/{row['log_path']}", "bytes": row["log_bytes"]},
                    "index_entry": self._index_entry(row, offset - shift),
                    "position": batch.position,
                    "batch_bytes": batch.size,
                    "batch_base_offset": batch.base_offset + shift,
                    "batch_last_offset": batch.last_offset + shift,
                }
        return 40404

    def _index_entry(self, row: dict[str, Any], offset: int) -> dict[str, Any] | None:
        base = row["file_base_offset"]
        if row.get("index_path") is None:
            return None
        path = f"{self._name}/{row['index_path']}"
        entries = struct.iter_unpack(">ii", (self._log_dir / path).read_bytes())
        absolute = [(base + relative, position) for relative, position in entries]
        found = log.floor_offset(absolute, base, offset)
        if not found.position:
            return None
        return {"path": path, "offset": found.offset, "position": found.position}
