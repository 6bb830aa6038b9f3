"""The columns of a segment: segments as rows, and as tables.

A path column with "" names a file beside the log: `log_path` with the column's own suffix. That
saves two thirds of the memory of a segment.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from sparklog.log.names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from sparklog.model import AbortedRange, SegmentEntry
from sparklog.record.arrays import empty_table, nulls, numbers_of, values_of

_ABORTED = pa.struct(
    [("producer_id", pa.int64()), ("first_delta", pa.int64()), ("last_delta", pa.int64())]
)

_SEGMENT_COLUMNS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "base_offset": pa.int64(),
    "next_offset": pa.int64(),
    "file_base_offset": pa.int64(),
    "log_path": pa.string(),
    "log_position": pa.int64(),
    "log_bytes": pa.int64(),
    "index_path": pa.string(),
    "index_bytes": pa.int64(),
    "time_index_path": pa.string(),
    "time_index_bytes": pa.int64(),
    "txn_index_path": pa.string(),
    "txn_index_bytes": pa.int64(),
    "key_index_path": pa.string(),
    "key_index_bytes": pa.int64(),
    "log_crc32c": pa.int64(),
    "record_count": pa.int64(),
    "batch_count": pa.int64(),
    "min_timestamp": pa.int64(),
    "max_timestamp": pa.int64(),
    "max_timestamp_delta": pa.int64(),
    "codec": pa.int32(),
    "max_leader_epoch": pa.int32(),
    "producer_ids": pa.list_(pa.int64()),
    "transactional": pa.bool_(),
    "aborted": pa.list_(_ABORTED),
    "delete_horizon_ms": pa.int64(),
    "created_ms": pa.int64(),
    "removed_ms": pa.int64(),
}

SEGMENT_SCHEMA = pa.schema(list(_SEGMENT_COLUMNS.items()))
"""The columns of a table of segments: an image holds such tables, and tasks send them."""

PATH_COLUMNS: Final = tuple(name for name in _SEGMENT_COLUMNS if name.endswith("_path"))
"""The columns that name files of a segment."""

_SUFFIXES: Final = {
    "index_path": INDEX_SUFFIX,
    "time_index_path": TIME_INDEX_SUFFIX,
    "txn_index_path": TXN_INDEX_SUFFIX,
    "key_index_path": KEY_INDEX_SUFFIX,
}
_FIELDS: Final = tuple(_SEGMENT_COLUMNS)
_ALL_FIELDS: Final = itemgetter(*map(SegmentEntry._fields.index, _FIELDS))
_ABORTED_AT: Final = _FIELDS.index("aborted")
_DEFAULTS: Final[Mapping[str, Any]] = SegmentEntry._field_defaults
_SUFFIX_AT: Final = tuple((_FIELDS.index(name), suffix) for name, suffix in _SUFFIXES.items())


def segment_fields(entry: SegmentEntry) -> Iterator[tuple[str, Any]]:
    """Yield every column of SEGMENT_SCHEMA with its value in the row of a segment."""
    return zip(_FIELDS, _values(entry), strict=True)


def _values(entry: SegmentEntry) -> list[Any]:
    """Return the values of a segment in the order of SEGMENT_SCHEMA."""
    values = list(_ALL_FIELDS(entry))
    for at, suffix in _SUFFIX_AT:
        if values[at] is not None and values[at] == _beside(entry.log_path, suffix):
            values[at] = ""
    values[_ABORTED_AT] = _aborted_json(entry.aborted)
    return values


def _aborted_json(spans: Iterable[AbortedRange]) -> list[dict[str, int]] | None:
    return [one._asdict() for one in spans] or None


def segment_entry(row: Mapping[str, Any]) -> SegmentEntry:
    """Return the segment of a row; other columns are ignored, absent ones have their defaults."""
    names = tuple(name for name in _FIELDS if row.get(name) is not None)
    return maker_of_segments(names)([row[name] for name in names])


@lru_cache(256)
def maker_of_segments(names: tuple[str, ...]) -> Callable[[Iterable[Any]], SegmentEntry]:
    """Return the function that makes a segment of the values of these columns.

    The others have their defaults. The names are matched once, and not for each segment. Raises
    TypeError for columns that are missing or unknown.
    """
    at = {name: len(names) + slot for slot, name in enumerate(_DEFAULTS)}
    at |= {name: slot for slot, name in enumerate(names)}
    wrong = at.keys() ^ set(SegmentEntry._fields)
    if wrong:
        raise TypeError(f"columns of a segment, missing or unknown: {', '.join(sorted(wrong))}")
    defaults, log_path = tuple(_DEFAULTS.values()), at["log_path"]
    in_order = itemgetter(*(at[name] for name in SegmentEntry._fields))
    beside = [(at[name], suffix) for name, suffix in _SUFFIXES.items() if name in names]
    converted = [(at[name], convert) for name, convert in _CONVERTED.items() if name in names]

    def segment(values: Iterable[Any]) -> SegmentEntry:
        row = [*values, *defaults]
        for slot, suffix in beside:
            if row[slot] == "":
                row[slot] = _beside(row[log_path], suffix)
        for slot, convert in converted:
            if row[slot] is not None:
                row[slot] = convert(row[slot])
        return tuple.__new__(SegmentEntry, in_order(row))

    return segment


def _aborted_of(spans: Iterable[Mapping[str, int]]) -> tuple[AbortedRange, ...]:
    return tuple(AbortedRange(**one) for one in spans)


_CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "producer_ids": tuple,
    "aborted": _aborted_of,
}


def _beside(log_path: str, suffix: str) -> str:
    return log_path.removesuffix(LOG_SUFFIX) + suffix


def segments_table(entries: Iterable[SegmentEntry]) -> pa.Table:
    """Return a table of SEGMENT_SCHEMA with a row for each entry, in the order given."""
    found = zip(*map(_ALL_FIELDS, entries), strict=True)
    columns: dict[str, Sequence[Any]] = dict(zip(_FIELDS, found, strict=False))
    if not columns:
        return empty_table(SEGMENT_SCHEMA)
    stems = [path.removesuffix(LOG_SUFFIX) for path in columns["log_path"]]
    for name, suffix in _SUFFIXES.items():
        columns[name] = [
            "" if path is not None and path == stem + suffix else path
            for path, stem in zip(columns[name], stems, strict=True)
        ]
    columns["aborted"] = [_aborted_json(spans) for spans in columns["aborted"]]
    arrays = [_column(columns[field.name], field.type) for field in SEGMENT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SEGMENT_SCHEMA)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    is_null = values[0] is None and values.count(None) == len(values)
    return nulls(len(values), kind) if is_null else values_of(values, kind)


def segment_entries(table: pa.Table) -> list[SegmentEntry]:
    """Return the entries of a table that has SEGMENT_SCHEMA's columns."""
    if not table.num_rows:
        return []
    columns = ((name, table.column(name)) for name in _FIELDS)
    used = {
        name: _with_default(column, _DEFAULTS.get(name))
        for name, column in columns
        if column.null_count < len(column)
    }
    return list(map(maker_of_segments(tuple(used)), zip(*used.values(), strict=True)))


def _with_default(column: pa.ChunkedArray, default: Any) -> list[Any]:
    if not column.null_count and pa.types.is_integer(column.type):
        numbers: list[Any] = numbers_of(column).tolist()
        return numbers
    values: list[Any] = column.to_pylist()
    if not column.null_count:
        return values
    return [default if value is None else value for value in values]
