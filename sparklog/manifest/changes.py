"""A change as manifest rows: what is new, and what the files that hold touched rows become."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparklog.manifest.receipts import Transaction, receipt_rows
from sparklog.manifest.rows import ManifestRows
from sparklog.manifest.store import Change, PartitionState, Snapshot
from sparklog.manifest.tables import (
    MANIFEST_SCHEMA,
    PARTITION,
    PARTITION_COLUMNS,
    TOPIC,
    manifest_table,
    segment_row,
)
from sparklog.model import SegmentEntry


def new_rows(
    snapshot: Snapshot, change: Change, transaction: Transaction | None, now_ms: int
) -> pa.Table:
    """Return the rows that a change adds; rows of segments it replaces are not among them."""
    rows: list[dict[str, Any]] = [segment_row(entry) for entry in change.segments]
    rows += [state_row(partition, state) for partition, state in sorted(change.partitions.items())]
    if change.closed_ms is not None or change.vacuum_horizon_ms is not None:
        rows.append(
            {
                "kind": TOPIC,
                "closed_ms": change.closed_ms,
                "vacuum_horizon_ms": change.vacuum_horizon_ms,
            }
        )
    rows += receipt_rows(snapshot, change, transaction, now_ms)
    return manifest_table(rows)


def state_row(partition: int, state: PartitionState) -> dict[str, Any]:
    """Return the row of kind `partition`."""
    values = {name: getattr(state, name) for name in PARTITION_COLUMNS}
    return {"kind": PARTITION, "partition": partition, **values}


def holders(rows: Mapping[str, ManifestRows], change: Change) -> list[str]:
    """Return the names of the files that hold a row the change removes, replaces or drops."""
    touched, forgotten = change.touched, frozenset(change.forget)
    before_ms = change.receipts_before_ms
    return [
        name
        for name, held in rows.items()
        if (touched and touched & held.live_paths)
        or (forgotten and forgotten & held.removed_paths)
        or (before_ms is not None and held.first_expiry_ms < before_ms)
    ]


def rewritten(rows: ManifestRows, change: Change) -> ManifestRows:
    """Return the rows without what the change drops, and with what it removes or replaces so."""
    table = _without_dropped(rows.table, change)
    if change.remove:
        paths = table.column("log_path")
        hit = pc.and_(
            pc.is_in(paths, pa.array(change.remove)), pc.is_null(table.column("removed_ms"))
        )
        removed = pc.if_else(
            hit, pa.scalar(change.removed_ms, pa.int64()), table.column("removed_ms")
        )
        table = table.set_column(
            table.schema.get_field_index("removed_ms"), MANIFEST_SCHEMA.field("removed_ms"), removed
        )
    if change.replace:
        swapped = {entry.log_path: segment_row(entry) for entry in change.replace}
        held = rows.live_paths & swapped.keys()
        keep = pc.invert(pc.is_in(table.column("log_path"), pa.array(sorted(held), pa.string())))
        fresh = manifest_table([swapped[path] for path in sorted(held)])
        table = pa.concat_tables([table.filter(keep), fresh])
    return ManifestRows(table)


def _without_dropped(table: pa.Table, change: Change) -> pa.Table:
    if change.forget:
        is_forgotten = pc.and_(
            pc.is_in(table.column("log_path"), pa.array(change.forget, pa.string())),
            pc.is_valid(table.column("removed_ms")),
        )
        table = table.filter(pc.invert(is_forgotten))
    if change.receipts_before_ms is not None:
        is_expired = pc.less(table.column("expires_ms"), change.receipts_before_ms)
        table = table.filter(pc.invert(pc.fill_null(is_expired, False)))
    return table


def names_segments(tables: Iterable[pa.Table], segments: Iterable[SegmentEntry]) -> bool:
    """Whether rows, live or removed, name one of these segments at the offsets it has here."""
    places = {(entry.log_path, entry.base_offset) for entry in segments}
    wanted = pa.array(sorted({path for path, _ in places}), pa.string())
    for table in tables:
        hit = table.filter(pc.is_in(table.column("log_path"), wanted))
        found = hit.select(["log_path", "base_offset"]).to_pydict()
        if not places.isdisjoint(zip(*found.values(), strict=True)):
            return True
    return False
