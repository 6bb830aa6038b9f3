"""Which manifest files a committer folds, and into what: the table keeps itself small.

Files fold in tiers: only when FAN files hold about as many rows each are they made one, so a row is
rewritten once a tier and the cost a commit stays logarithmic in the number of commits.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sparklog.manifest.changes import state_row
from sparklog.manifest.receipts import kept_receipts
from sparklog.manifest.rows import COMMIT, LIVE, REMOVED, ManifestRows, parse_file_name
from sparklog.manifest.tables import RECEIPT, TOPIC, manifest_table

FAN = 10

RECEIPT_DIGITS = 4
"""Receipts fold into files of five digits of rows at most. A day's may be millions, which nobody
reads from one end to the other (`receipt_files`): to write them once more would hold up a commit.
"""


def files_to_fold(names: Iterable[str]) -> list[str]:
    """Return the files of every tier that is full; commits and live files share their tiers."""
    tiers: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in names:
        role, rows = parse_file_name(name)
        digits = len(str(rows))
        if role != RECEIPT or digits <= RECEIPT_DIGITS:
            tiers[LIVE if role == COMMIT else role, digits].append(name)
    return [name for tier in tiers.values() if len(tier) >= FAN for name in tier]


def folded(rows: ManifestRows, now_ms: int) -> list[tuple[str, pa.Table]]:
    """Return (role, table) for each role that has rows: the same facts in the fewest rows."""
    live = pa.concat_tables(
        [
            rows.segments.filter(pc.is_null(rows.segments.column("removed_ms"))),
            manifest_table(_state_rows(rows)),
        ]
    )
    parts = ((LIVE, live), (REMOVED, rows.removed), (RECEIPT, kept_receipts(rows.receipts, now_ms)))
    return [(role, table) for role, table in parts if table.num_rows]


def _state_rows(rows: ManifestRows) -> list[dict[str, object]]:
    states = [state_row(partition, state) for partition, state in sorted(rows.states.items())]
    if rows.closed_ms is None and not rows.vacuum_horizon_ms:
        return states
    topic = {"closed_ms": rows.closed_ms, "vacuum_horizon_ms": rows.vacuum_horizon_ms or None}
    return [*states, {"kind": TOPIC, **topic}]


def rows_of(tables: Sequence[pa.Table]) -> ManifestRows:
    """Return the rows of several tables as one."""
    return ManifestRows(pa.concat_tables(tables).combine_chunks())
