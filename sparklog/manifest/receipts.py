"""Replays: what an idempotent write got is answered again, with the same offsets.

A write with `app_id` and `version` is remembered by the version, the highest for good. A lower
one, whose receipt may still be there, is skipped with a warning, as is one whose receipt is gone. A
write with `app_id` alone (a request's key) is remembered for RECEIPT_TTL_MS.
"""

import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sparklog.errors import SparklogWarning
from sparklog.manifest.store import RECEIPT_TTL_MS, Change, Committed, Receipt, Snapshot
from sparklog.manifest.tables import RECEIPT
from sparklog.model import OffsetRange


class Transaction(NamedTuple):
    """What makes a write happen once: Delta's txnAppId and txnVersion, or a request's key alone."""

    app_id: str
    version: int | None = None


def receipt_rows(
    snapshot: Snapshot, change: Change, transaction: Transaction | None, now_ms: int
) -> list[dict[str, Any]]:
    """Return the rows that remember a write, and those of the keys that share its commit."""
    writes = [(Transaction(key), ranges) for key, ranges in change.receipts.items()]
    if transaction is not None:
        writes.append((transaction, change.ranges(snapshot)))
    count = change.partition_count
    return [row for write, ranges in writes for row in _rows(write, ranges, count, now_ms)]


def _rows(
    transaction: Transaction,
    ranges: Sequence[OffsetRange],
    partition_count: int | None,
    now_ms: int,
) -> list[dict[str, Any]]:
    """Return a row a partition; one row without a partition when the write had no records."""
    receipt = {
        "kind": RECEIPT,
        "app_id": transaction.app_id,
        "version": transaction.version,
        "partition_count": partition_count,
        "expires_ms": now_ms + RECEIPT_TTL_MS if transaction.version is None else None,
    }
    return [
        {**receipt, "partition": got.partition, "start": got.start, "end": got.end}
        for got in ranges
    ] or [receipt]


def keys_receipts(
    tables: Iterable[pa.Table], keys: Collection[str], now_ms: int
) -> dict[str, Receipt]:
    """Return the remembered receipts of writes without a version, of these keys those there are."""
    wanted = pa.array(sorted(keys), pa.string())
    found = [table.filter(pc.is_in(table.column("app_id"), wanted)) for table in tables]
    present = {key for table in found for key in table.column("app_id").to_pylist()}
    receipts = {key: Receipts(found, key, now_ms).get(None) for key in sorted(present)}
    return {key: receipt for key, receipt in receipts.items() if receipt is not None}


class Receipts:
    """The receipts of one application, from the receipt rows of a manifest's files."""

    def __init__(self, tables: Iterable[pa.Table], app_id: str, now_ms: int) -> None:
        rows: list[dict[str, Any]] = []
        for table in tables:
            rows += table.filter(pc.equal(table.column("app_id"), app_id)).to_pylist()
        self._rows = [row for row in rows if is_remembered(row, now_ms)]

    @property
    def highest_version(self) -> int | None:
        """The highest version there is a receipt of."""
        return max(
            (row["version"] for row in self._rows if row["version"] is not None), default=None
        )

    def get(self, version: int | None) -> Receipt | None:
        """Return the receipt of a version, or of the write without one; None when there is none."""
        rows = [row for row in self._rows if row["version"] == version]
        ranges = {
            OffsetRange(row["partition"], row["start"], row["end"])
            for row in rows
            if row["partition"] is not None
        }
        return Receipt(tuple(sorted(ranges)), rows[0]["partition_count"]) if rows else None


def is_remembered(row: dict[str, Any], now_ms: int) -> bool:
    """Whether a receipt row has not expired."""
    return row["expires_ms"] is None or row["expires_ms"] >= now_ms


def kept_receipts(receipts: pa.Table, now_ms: int) -> pa.Table:
    """Return the receipts that can be asked for: unexpired, and each app's highest version."""
    lasts = pc.greater_equal(receipts.column("expires_ms"), now_ms)
    remembered = receipts.filter(pc.fill_null(lasts, True))
    is_key = pc.is_null(remembered.column("version"))
    keys, versioned = remembered.filter(is_key), remembered.filter(pc.invert(is_key))
    highest = versioned.group_by("app_id").aggregate([("version", "max")])
    slot = pc.index_in(versioned.column("app_id"), highest.column("app_id"))
    is_highest = pc.equal(versioned.column("version"), highest.column("version_max").take(slot))
    return pa.concat_tables([keys, versioned.filter(is_highest)])


def replay(
    at: int, transaction: Transaction, highest: int | None, receipt: Receipt | None
) -> Committed | None:
    """Return the answer to a write that was committed before, None when this one is the first.

    `at` is the manifest's version, `highest` the application's highest committed version, `receipt`
    that of the transaction itself. Warns when the offsets are no longer known.
    """
    version = transaction.version
    if receipt is not None and version in (None, highest):
        return Committed(at, receipt.ranges, True, receipt.partition_count)
    if version is None or highest is None or highest < version:
        return None
    why = "its receipt is gone" if version == highest else "offsets are told of the highest only"
    warnings.warn(
        f"version {version} of {transaction.app_id!r} was committed before, up to {highest}, and "
        f"{why}: skipped, offsets unknown",
        SparklogWarning,
        stacklevel=2,
    )
    return Committed(at, None, replayed=True)
