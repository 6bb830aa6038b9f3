"""The columns of a run, and the conversion between rows and values.

A run is one Parquet file of rows of several kinds. Every column except `kind`, `as_of` and `gone`
is nullable; a row fills the columns of its kind:

    kind       key                                           says
    topic      topic_id                                      name … receipts_before_ms
    partition  topic_id, partition                           log_start_offset … producers_from_id
    segment    topic_id, partition, log_path, log_position   base_offset … removed_ms
    receipt    topic_id, app_id, is_versioned                ranges … used_ms
    producer   topic_id, partition, producer_id              producer_epoch, batches, used_ms
    lease      name                                          owner, expires_ms
    shared     log_path                                      slice_count, unused_ms
    broker     node_id                                       incarnation, endpoints, rack
    user       name, mechanism                               salt … iterations
    transactional_id  name                                   producer_id … used_ms
    horizon    (one row)                                     horizon_ms … ended_logs

A row is absolute: it has the whole state of its key as of version `as_of`. Of several rows of one
key the one with the largest `as_of` counts; `gone` says that the key was removed.

A path column with "" names a file beside the log: `log_path` with the column's own suffix. That
saves two thirds of the memory of a segment.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from sparklog.errors import CorruptMetadataError, UnsupportedFeatureError
from sparklog.log.names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from sparklog.metadata.producers import ProducerBatch
from sparklog.model import AbortedRange, SegmentEntry
from sparklog.record.arrays import empty_table, numbers_of, values_of

TOPIC: Final = "topic"
PARTITION: Final = "partition"
SEGMENT: Final = "segment"
RECEIPT: Final = "receipt"
PRODUCER: Final = "producer"
LEASE: Final = "lease"
SHARED: Final = "shared"
BROKER: Final = "broker"
USER: Final = "user"
TRANSACTIONAL_ID: Final = "transactional_id"
HORIZON: Final = "horizon"

_ABORTED = pa.struct(
    [("producer_id", pa.int64()), ("first_delta", pa.int64()), ("last_delta", pa.int64())]
)
_TRANSACTION = pa.struct([("producer_id", pa.int64()), ("first_offset", pa.int64())])
_EPOCH = pa.struct([("epoch", pa.int64()), ("start_offset", pa.int64())])
_BATCH = pa.struct([(name, pa.int64()) for name in ProducerBatch._fields])
_ENDPOINT = pa.struct([("name", pa.string()), ("host", pa.string()), ("port", pa.int32())])
_TRANSACTION_PARTITION = pa.struct([("topic_id", pa.string()), ("partition", pa.int32())])
_PENDING_OFFSET = pa.struct(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
    ]
)
_ENDED_LOG = pa.struct([("log_id", pa.string()), ("version", pa.int64())])
_RANGE = pa.struct([("partition", pa.int64()), ("start", pa.int64()), ("end", pa.int64())])

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

RUN_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("as_of", pa.int64(), nullable=False),
        pa.field("gone", pa.bool_(), nullable=False),
        pa.field("topic_id", pa.string()),
        *SEGMENT_SCHEMA,
        pa.field("log_start_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("leader_epoch", pa.int64()),
        pa.field("cleaner_offset", pa.int64()),
        pa.field("imported_end_offset", pa.int64()),
        pa.field("transactions", pa.list_(_TRANSACTION)),
        pa.field("epochs", pa.list_(_EPOCH)),
        pa.field("producers_from_ms", pa.int64()),
        pa.field("producers_from_id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("partition_count", pa.int32()),
        pa.field("configs", pa.map_(pa.string(), pa.string())),
        pa.field("deleted_ms", pa.int64()),
        pa.field("vacuum_horizon_ms", pa.int64()),
        pa.field("receipts_before_ms", pa.int64()),
        pa.field("app_id", pa.string()),
        pa.field("is_versioned", pa.bool_()),
        pa.field("version", pa.int64()),
        pa.field("ranges", pa.list_(_RANGE)),
        pa.field("content_crc32c", pa.int64()),
        pa.field("used_ms", pa.int64()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int32()),
        pa.field("batches", pa.list_(_BATCH)),
        pa.field("owner", pa.string()),
        pa.field("expires_ms", pa.int64()),
        pa.field("slice_count", pa.int64()),
        pa.field("unused_ms", pa.int64()),
        pa.field("horizon_ms", pa.int64()),
        pa.field("level", pa.int64()),
        pa.field("next_producer_id", pa.int64()),
        pa.field("ended_logs", pa.list_(_ENDED_LOG)),
        pa.field("node_id", pa.int32()),
        pa.field("incarnation", pa.string()),
        pa.field("endpoints", pa.list_(_ENDPOINT)),
        pa.field("rack", pa.string()),
        pa.field("mechanism", pa.string()),
        pa.field("salt", pa.binary()),
        pa.field("stored_key", pa.binary()),
        pa.field("server_key", pa.binary()),
        pa.field("iterations", pa.int32()),
        pa.field("timeout_ms", pa.int64()),
        pa.field("status", pa.string()),
        pa.field("last_producer_id", pa.int64()),
        pa.field("last_epoch", pa.int32()),
        pa.field("number", pa.int64()),
        pa.field("started_ms", pa.int64()),
        pa.field("transaction_partitions", pa.list_(_TRANSACTION_PARTITION)),
        pa.field("transaction_groups", pa.list_(pa.string())),
        pa.field("transaction_offsets", pa.list_(_PENDING_OFFSET)),
    ]
)
"""Every column of a run, and the schema of `__cluster_metadata` as a Delta table."""

LOG_DIR_KINDS: Final = frozenset({BROKER, HORIZON, LEASE, SHARED, TOPIC, TRANSACTIONAL_ID, USER})
"""The kinds that are read when a log dir is opened; rows of other kinds belong to one topic."""

KEY_COLUMNS: Final = {
    TOPIC: ("topic_id",),
    PARTITION: ("topic_id", "partition"),
    SEGMENT: ("topic_id", "partition", "log_path", "log_position"),
    RECEIPT: ("topic_id", "app_id", "is_versioned"),
    PRODUCER: ("topic_id", "partition", "producer_id"),
    LEASE: ("name",),
    SHARED: ("log_path",),
    BROKER: ("node_id",),
    USER: ("name", "mechanism"),
    TRANSACTIONAL_ID: ("name",),
    HORIZON: (),
}
KEY_NAMES: Final = tuple(dict.fromkeys(name for names in KEY_COLUMNS.values() for name in names))
"""Every column that is part of a key."""

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


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table of `schema`; absent columns are null."""
    used = {name for row in rows for name, value in row.items() if value is not None}
    columns = [
        values_of([row.get(field.name) for row in rows], field.type)
        if field.name in used
        else nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def check_columns(table: pa.Table, where: str) -> pa.Table:
    """Return a run's rows, cast to RUN_SCHEMA's types.

    Raises UnsupportedFeatureError for a kind or a column that this release does not know, because
    it may change the meaning of the others, and CorruptMetadataError for a column that is missing
    or of another type. `where` names the file.
    """
    _check_known(where, "columns", table.column_names, RUN_SCHEMA.names)
    schema = pa.schema([RUN_SCHEMA.field(name) for name in table.column_names])
    lacking = {field.name for field in RUN_SCHEMA if not field.nullable}.difference(schema.names)
    try:
        table = table.cast(schema)
    except (ValueError, pa.ArrowException) as error:
        raise CorruptMetadataError(f"{where}: no rows of a run: {error}") from error
    if lacking:
        raise CorruptMetadataError(f"{where}: no rows of a run: no {', '.join(sorted(lacking))}")
    _check_known(where, "kinds", table.column("kind").unique().to_pylist(), KEY_COLUMNS)
    return table


def padded(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of `schema`; a missing one is null and takes no memory."""
    known = set(table.column_names)
    columns = [
        table.column(field.name) if field.name in known else nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _check_known(where: str, what: str, found: Iterable[Any], known: Collection[str]) -> None:
    unknown = sorted(str(name) for name in set(found).difference(known))
    if unknown:
        raise UnsupportedFeatureError(
            f"{where}: {what} that this release does not know: {', '.join(unknown)}; upgrade "
            f"sparklog"
        )


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return a column of nulls; columns of similar length share their memory."""
    longest = _nulls(1 << max(10, (count - 1).bit_length()), kind)
    return longest.slice(0, count)


@lru_cache(64)
def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)
