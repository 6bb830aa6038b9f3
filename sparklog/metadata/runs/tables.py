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
    horizon    (one row)                                     horizon_ms … ended_logs; in name and
                                                             used_ms: id and time of its entry

A row is absolute: it has the whole state of its key as of version `as_of`. Of several rows of one
key the one with the largest `as_of` counts; `gone` says that the key was removed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from sparklog.errors import CorruptMetadataError, UnsupportedFeatureError
from sparklog.metadata.state.producers import ProducerBatch
from sparklog.metadata.state.segment_tables import SEGMENT_SCHEMA
from sparklog.record.arrays import nulls, values_of

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
