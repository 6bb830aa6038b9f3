"""The columns of the two kinds of Delta table, and rows to values and back.

`<topic>/manifest` holds rows of four kinds in one table, because only one table commits atomically.
Every column but `kind` is nullable; a row fills the columns of its kind:

    segment    partition … transaction_id: one SegmentEntry. removed_ms null = live.
    partition  partition, log_start_offset, log_end_offset, leader_epoch, cleaner_offset,
               imported_end_offset. All only grow: readers take the maximum over the rows.
    topic      closed_ms (deletion has begun), vacuum_horizon_ms. Readers take the maximum.
    receipt    app_id, version, partition, start, end, partition_count, expires_ms: what a committed
               idempotent write got. partition null: the write had no rows.

`__cluster_metadata` is rewritten whole by every commit (it is one row a topic):

    topic      name, topic_id, partition_count, configs (overrides only), created_ms, deleted_ms
    lease      name, owner, expires_ms
    horizon    vacuum_horizon_ms
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from sparklog.errors import CorruptManifestError
from sparklog.log import segments
from sparklog.model import SegmentEntry

MANIFEST_DESCRIPTION = "sparklog manifest 1"
METADATA_DESCRIPTION = "sparklog cluster metadata 1"

SEGMENT = "segment"
PARTITION = "partition"
TOPIC = "topic"
RECEIPT = "receipt"
MANIFEST_KINDS = (SEGMENT, PARTITION, TOPIC, RECEIPT)

LEASE = "lease"
HORIZON = "horizon"
METADATA_KINDS = (TOPIC, LEASE, HORIZON)

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
    "transaction_id": pa.string(),
}

PARTITION_COLUMNS = (
    "log_start_offset",
    "log_end_offset",
    "leader_epoch",
    "cleaner_offset",
    "imported_end_offset",
)
TOPIC_COLUMNS = ("closed_ms", "vacuum_horizon_ms")

MANIFEST_SCHEMA = pa.schema(
    [pa.field("kind", pa.string(), nullable=False)]
    + [pa.field(name, kind) for name, kind in _SEGMENT_COLUMNS.items()]
    + [pa.field(name, pa.int64()) for name in PARTITION_COLUMNS + TOPIC_COLUMNS]
    + [
        pa.field("app_id", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("partition_count", pa.int32()),
        pa.field("expires_ms", pa.int64()),
    ]
)

METADATA_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("partition_count", pa.int32()),
        pa.field("configs", pa.map_(pa.string(), pa.string())),
        pa.field("created_ms", pa.int64()),
        pa.field("deleted_ms", pa.int64()),
        pa.field("owner", pa.string()),
        pa.field("expires_ms", pa.int64()),
        pa.field("vacuum_horizon_ms", pa.int64()),
    ]
)

SEGMENT_SCHEMA = pa.schema([pa.field(name, kind) for name, kind in _SEGMENT_COLUMNS.items()])
"""A table of segments alone: what a snapshot holds, and what a task hands to its driver."""

PATH_COLUMNS = tuple(name for name in _SEGMENT_COLUMNS if name.endswith("_path"))
"""The columns that name files of a segment, relative to the topic's directory."""


def segment_row(entry: SegmentEntry) -> dict[str, Any]:
    """Return the row of a segment, `kind` included."""
    return {"kind": SEGMENT, **segments.segment_row(entry)}


def segments_table(entries: Iterable[SegmentEntry]) -> pa.Table:
    """Return a table of SEGMENT_SCHEMA, a row an entry, in the order given."""
    return pa.Table.from_pylist([segment_row(entry) for entry in entries], SEGMENT_SCHEMA)


def segment_entries(table: pa.Table) -> list[SegmentEntry]:
    """Return the entries of a table that has SEGMENT_SCHEMA's columns."""
    return [segments.segment_entry(row) for row in table.to_pylist()]


def manifest_table(rows: Iterable[Mapping[str, Any]] = ()) -> pa.Table:
    """Return rows of any kind as a table of MANIFEST_SCHEMA; absent columns are null."""
    filled = list(rows)
    used = {name for row in filled for name, value in row.items() if value is not None}
    columns = [
        pa.array([row.get(field.name) for row in filled], field.type)
        if field.name in used
        else pa.nulls(len(filled), field.type)
        for field in MANIFEST_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=MANIFEST_SCHEMA)


def check_table(table: pa.Table, schema: pa.Schema, kinds: tuple[str, ...], where: str) -> pa.Table:
    """Return `table` with exactly `schema`'s columns.

    Columns this release does not know are ignored, missing ones are null. A kind it does not know
    raises CorruptManifestError: it may change what the other rows mean.
    """
    unknown = sorted(set(table.column("kind").unique().to_pylist()) - set(kinds))
    if unknown:
        allowed = ", ".join(kinds)
        raise CorruptManifestError(
            f"{where}: rows of unknown kind {', '.join(unknown)}; this release knows {allowed}"
        )
    known = set(table.column_names)
    columns = [
        _typed(table.column(field.name), field.type)
        if field.name in known
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)
