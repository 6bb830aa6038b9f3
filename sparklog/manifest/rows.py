"""One file of a manifest table, parsed; and what a name of such a file tells.

    <role>-<rows, 8 digits>-<uuid7>.parquet

    commit    the rows of one commit, of any kind
    live      folded: live segments, one row a partition, one topic row
    removed   folded: segments with removed_ms
    receipt   folded: receipts

Opening a topic reads `commit` and `live` files only, so its cost is that of the live segments. The
role stands in the name, not only in Delta's statistics, because listing names costs a tenth of
listing statistics. A file of another name is read as `commit`.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.errors import CorruptMetadataError
from sparklog.manifest.store import PartitionState
from sparklog.manifest.tables import (
    MANIFEST_KINDS,
    MANIFEST_SCHEMA,
    PARTITION,
    PARTITION_COLUMNS,
    RECEIPT,
    SEGMENT,
    SEGMENT_SCHEMA,
    TOPIC,
    check_table,
)

COMMIT = "commit"
LIVE = "live"
REMOVED = "removed"

SMALL_ROWS = 100

NEVER_MS = 2**63 - 1

_NAME = re.compile(r"(commit|live|removed|receipt)-(\d{8,})-[0-9a-f-]{36}\.parquet")


class FileName(NamedTuple):
    """What a manifest file's name tells."""

    role: str
    rows: int


def file_name(role: str, rows: int, uuid: str) -> str:
    """Return the name of a manifest file."""
    return f"{role}-{rows:08}-{uuid}.parquet"


def parse_file_name(name: str) -> FileName:
    """Return role and rows of a name; a name this release did not make is a commit of one row."""
    match = _NAME.fullmatch(name)
    return FileName(match[1], int(match[2])) if match else FileName(COMMIT, 1)


@dataclass(frozen=True, eq=False)
class ManifestRows:
    """Rows of a manifest, whatever file they came from."""

    table: pa.Table

    @cached_property
    def segments(self) -> pa.Table:
        """Segment rows, live and removed."""
        return self._of_kind(SEGMENT)

    @cached_property
    def live(self) -> pa.Table:
        """Live segments, SEGMENT_SCHEMA."""
        rows = self.segments
        return _where(pc.is_null(rows.column("removed_ms")), rows).select(SEGMENT_SCHEMA.names)

    @cached_property
    def removed(self) -> pa.Table:
        """Segment rows with removed_ms."""
        rows = self.segments
        return _where(pc.is_valid(rows.column("removed_ms")), rows)

    @cached_property
    def receipts(self) -> pa.Table:
        """Receipt rows."""
        return self._of_kind(RECEIPT)

    @cached_property
    def live_paths(self) -> frozenset[str]:
        """The log_path of every live segment."""
        return frozenset(self.live.column("log_path").to_pylist())

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """The log_path of every removed segment."""
        return frozenset(self.removed.column("log_path").to_pylist())

    @cached_property
    def first_expiry_ms(self) -> int:
        """When the first receipt expires; NEVER_MS when none ever does."""
        first: int | None = pc.min(self.receipts.column("expires_ms")).as_py()
        return NEVER_MS if first is None else first

    @cached_property
    def states(self) -> dict[int, PartitionState]:
        """What the rows say of each partition: the maximum of each column."""
        states: dict[int, PartitionState] = {}
        for row in self._of_kind(PARTITION).select(["partition", *PARTITION_COLUMNS]).to_pylist():
            partition = row.pop("partition")
            state = PartitionState(**{name: value or 0 for name, value in row.items()})
            states[partition] = states.get(partition, PartitionState()).grown(state)
        for partition, end in _last_offsets(self.segments):
            state = PartitionState(log_end_offset=end)
            states[partition] = states.get(partition, PartitionState()).grown(state)
        return states

    @cached_property
    def closed_ms(self) -> int | None:
        """When the topic's deletion began; None while it lives."""
        return self._largest("closed_ms")

    @cached_property
    def vacuum_horizon_ms(self) -> int:
        """Files born before it may be gone; 0 when there was no vacuum."""
        return self._largest("vacuum_horizon_ms") or 0

    def _largest(self, column: str) -> int | None:
        largest: int | None = pc.max(self._of_kind(TOPIC).column(column)).as_py()
        return largest

    def _of_kind(self, kind: str) -> pa.Table:
        return _where(pc.equal(self.table.column("kind"), kind), self.table)


def _where(mask: pa.ChunkedArray, table: pa.Table) -> pa.Table:
    """Return the rows where `mask` holds; rows side by side, as in most files, cost no copy."""
    count = pc.sum(mask).as_py() or 0
    start = max(pc.index(mask, True).as_py(), 0)
    if (pc.sum(mask.slice(start, count)).as_py() or 0) == count:
        return table.slice(start, count)
    return table.filter(mask)


def _last_offsets(segments: pa.Table) -> Iterable[tuple[int, int]]:
    """Yield (partition, largest next_offset)."""
    partitions = segments.column("partition").to_numpy()
    ends = segments.column("next_offset").to_numpy()
    order = np.lexsort((ends, partitions))
    partitions, ends = partitions[order], ends[order]
    last = np.append(partitions[1:] != partitions[:-1], True) if len(order) else order
    return zip(partitions[last].tolist(), ends[last].tolist(), strict=True)


def to_parquet(table: pa.Table) -> bytes:
    """Return the table as one Parquet file, without the columns that are null in every row."""
    used = [name for name in table.column_names if table.column(name).null_count < table.num_rows]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.select(used),
        sink,
        # Compressing a few rows costs more than they do.
        compression="zstd" if table.num_rows > SMALL_ROWS else "none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_parquet(data: memoryview, where: str) -> pa.Table:
    """Return the table of one Parquet file; raises CorruptMetadataError when it is none."""
    try:
        return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise CorruptMetadataError(f"{where} cannot be read: {error}") from error


def from_parquet(data: memoryview, where: str) -> ManifestRows:
    """Return the rows of a Parquet file.

    Raises CorruptMetadataError for a file that cannot be read, and for an unknown kind.
    """
    return ManifestRows(
        check_table(read_parquet(data, where), MANIFEST_SCHEMA, MANIFEST_KINDS, where)
    )


def delta_statistics(table: pa.Table) -> str:
    """Return Delta's statistics (JSON): they tell live rows, removed rows and receipts apart."""
    kinds = pc.min_max(table.column("kind")).as_py()
    return json.dumps(
        {
            "numRecords": table.num_rows,
            "minValues": {"kind": kinds["min"]},
            "maxValues": {"kind": kinds["max"]},
            "nullCount": {"kind": 0, "removed_ms": table.column("removed_ms").null_count},
        }
    )
