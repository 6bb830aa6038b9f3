"""Writes records to the Parquet files of a table, in bounded memory.

    batches, sorted by partition and offset
      -> row groups of 64 MiB of records     about two of them are in memory
      -> files of about 128 MiB              each becomes an `add` action, with its statistics

Offsets and times are delta-encoded, other columns have dictionaries, and all is compressed by zstd.
With a dictionary, Spark reads repeated values a third faster. A column stops using its dictionary
when this has 1 MiB. Files are written like segments: under a name that is used once, and synced
before a commit names them.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.log.names import uuid7
from sparklog.storage.files import Files, NewFile
from sparklog.table.footer import encoded, joined, spans
from sparklog.table.schema import ARROW_SCHEMA, SORTED, STATISTICS, Action

ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
ROW_GROUP_ROWS: Final = 1024 * 1024
FILE_BYTES: Final = 128 * 1024 * 1024

_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": [
        *("partition", "timestampType", "topic", "key", "value"),
        *("headers.list.element.key", "headers.list.element.value"),
    ],
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
    "write_statistics": list(STATISTICS),
    "write_page_index": True,
    "store_schema": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that was written: its path below the table, bytes, rows and statistics."""

    path: str
    bytes: int
    rows: int
    statistics: Action
    born_ms: int
    """When the file was created: the time in its name."""
    is_sorted: bool = True
    """Whether its rows are sorted by partition and offset."""

    def add(self, now_ms: int, *, changes_data: bool = True) -> Action:
        """Return the file's action `add`. `changes_data`: whether the file has new rows."""
        return {
            "add": {
                "path": self.path,
                "partitionValues": {},
                "size": self.bytes,
                "modificationTime": now_ms,
                "dataChange": changes_data,
                "stats": json.dumps(self.statistics, separators=(",", ":")),
                "tags": {SORTED: "true"} if self.is_sorted else {},
            }
        }


def write_files(
    files: Files, directory: str, batches: Iterable[pa.RecordBatch], now_ms: int
) -> list[WrittenFile]:
    """Write batches (ARROW_SCHEMA), sorted by partition and offset; return the synced files.

    `directory` is the table's. Without rows no file is written. On an error the incomplete file is
    dropped, and the error is raised.
    """
    done: list[WrittenFile] = []
    current: _FileWriter | None = None
    try:
        for group in _row_groups(batches):
            current = current or _FileWriter(files, directory, now_ms)
            current.write(group)
            if current.bytes >= FILE_BYTES:
                done.append(current.close())
                current = None
        if current is not None:
            done.append(current.close())
    except BaseException:
        if current is not None:
            current.abort()
        raise
    files.sync([f"{directory}/{one.path}" for one in done])
    return done


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= ROW_GROUP_BYTES or rows >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held, size, rows = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


def sorted_by_offset(table: pa.Table) -> pa.Table:
    """Return rows sorted by partition and offset, as in the table's files."""
    return table.take(pc.sort_indices(table, [("partition", "ascending"), ("offset", "ascending")]))


class _FileWriter:
    """One file that is being written."""

    def __init__(self, files: Files, directory: str, now_ms: int) -> None:
        self._born_ms = now_ms
        self._name = f"part-{uuid7(now_ms, os.urandom(10))}.parquet"
        self._file = files.create(f"{directory}/{self._name}", durable=True)
        self._sink = _Sink(self._file)
        self._writer = pq.ParquetWriter(self._sink, ARROW_SCHEMA, **_OPTIONS)
        self._ranges: dict[int, tuple[int, int]] = {}
        self._statistics = _Statistics()

    @property
    def bytes(self) -> int:
        """How many bytes were written."""
        return self._file.bytes_written

    def write(self, group: pa.Table) -> None:
        """Write a row group."""
        self._writer.write_table(group, row_group_size=group.num_rows)
        for batch in group.to_batches():
            for partition, span in spans(batch).items():
                self._ranges[partition] = joined(self._ranges.get(partition), span)
        self._statistics.add(group)

    def close(self) -> WrittenFile:
        """Complete the file, not yet synced; return it."""
        self._writer.add_key_value_metadata(encoded(self._ranges))
        self._writer.close()
        self._file.close()
        return WrittenFile(
            path=self._name,
            bytes=self._file.bytes_written,
            rows=self._statistics.rows,
            statistics=self._statistics.as_json(),
            born_ms=self._born_ms,
        )

    def abort(self) -> None:
        """Drop the file; ignore the bytes that Parquet's writer writes at its end."""
        self._sink.is_dropped = True
        self._writer.close()
        self._file.abort()


class _Sink:
    """A new file with the interface of Python's files."""

    closed = False

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self.is_dropped = False

    def write(self, data: Any) -> int:
        """Append bytes."""
        if not self.is_dropped:
            self._file.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: `write` buffers nothing."""

    def close(self) -> None:
        """Close nothing: `_FileWriter` completes or drops the file."""


@dataclass(slots=True)
class _Statistics:
    """Delta's statistics of a file."""

    rows: int = 0
    least: dict[str, Any] = field(default_factory=dict)
    largest: dict[str, Any] = field(default_factory=dict)

    def add(self, table: pa.Table) -> None:
        """Count rows, and widen the bounds."""
        self.rows += table.num_rows
        for name in STATISTICS:
            column = table[name]
            kind = pa.int64() if name == "timestamp" else column.type
            bounds = pc.min_max(column.cast(kind)).as_py()
            self.least[name] = min(bounds["min"], self.least.get(name, bounds["min"]))
            self.largest[name] = max(bounds["max"], self.largest.get(name, bounds["max"]))

    def as_json(self) -> Action:
        """Return the statistics as JSON, without times outside the years 1 to 9999."""
        least, largest = dict(self.least), dict(self.largest)
        texts = _time_text(least.pop("timestamp")), _time_text(largest.pop("timestamp"))
        if None not in texts:
            least["timestamp"], largest["timestamp"] = texts
        return {
            "numRecords": self.rows,
            "minValues": least,
            "maxValues": largest,
            "nullCount": dict.fromkeys(STATISTICS, 0),
        }


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _time_text(microseconds: int) -> str | None:
    try:
        when = _EPOCH + timedelta(milliseconds=microseconds // 1000)
    except OverflowError:
        return None
    return f"{when.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
