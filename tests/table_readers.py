"""Engines that read a topic's table without sparklog, each by its own Parquet reader."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import polars
import pyarrow as pa
from deltalake import DeltaTable

from sparklog.record.rows import HEADERS_TYPE, RecordColumns
from sparklog.table.parquet import sorted_by_offset
from sparklog.table.schema import ARROW_SCHEMA, COLUMNS
from tests.logs import append_to, catalog
from tests.naive.records import Record, timestamps

RECORDS: Final = [
    Record(0, 0, None, None),
    Record(0, 1, b"", b""),
    Record(0, 1_600_000_000_123, b"k", b"v" * 300),
    Record(0, 7, b"\x00\xff", b"\x80", (("h", b"x"), ("h", None), ("", b""))),
]
"""Records with all that a record may have: null and empty, bytes that are no text, headers."""
FAR: Final = Record(0, 253_402_300_800_000, b"k", b"in the year 10000")
"""What does not fit into nanoseconds, nor into Python's datetime."""


def append_records(log_dir: str, records: Sequence[Record], partition: int = 0) -> None:
    """Append records; their offsets are the log's."""
    columns = RecordColumns(
        key=pa.array([one.key for one in records], pa.binary()),
        value=pa.array([one.value for one in records], pa.binary()),
        timestamp=timestamps(records),
        headers=pa.array([_pairs(one) for one in records], HEADERS_TYPE),
    )
    append_to(catalog(log_dir), partition, columns)


def _pairs(record: Record) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in record.headers] or None


def _by_delta_rs(directory: Path) -> pa.Table:
    return DeltaTable(directory).to_pyarrow_table()


def _by_polars(directory: Path) -> pa.Table:
    return polars.scan_delta(str(directory)).collect().to_arrow()


def _by_duckdb(directory: Path) -> pa.Table:
    """DuckDB's extension for Delta is not in its wheel: the files are those that delta-rs names."""
    files = [str(directory / name) for name in DeltaTable(directory).file_uris()]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.read_parquet(files).to_arrow_table()


ENGINES: Final[Mapping[str, Callable[[Path], pa.Table]]] = {
    "delta-rs": _by_delta_rs,
    "Polars": _by_polars,
    "DuckDB": _by_duckdb,
}


def rows_by(engine: str, directory: Path) -> pa.Table:
    """All rows of a table as an engine reads them, in the table's columns, sorted."""
    found = ENGINES[engine](directory).select(COLUMNS)
    return sorted_by_offset(found.cast(ARROW_SCHEMA)).combine_chunks()
