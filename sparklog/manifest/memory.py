"""The manifest in a few dictionaries: the specification that the Delta store is tested against."""

from collections.abc import Callable, Collection
from dataclasses import replace
from threading import RLock
from typing import Any

from sparklog.clock import Clock
from sparklog.errors import CommitConflictError
from sparklog.manifest.check import check_change
from sparklog.manifest.receipts import Transaction, replay
from sparklog.manifest.store import (
    RECEIPT_TTL_MS,
    Change,
    Committed,
    Done,
    PartitionState,
    Plan,
    Receipt,
    Snapshot,
)
from sparklog.manifest.tables import RECEIPT, manifest_table, segment_row, segments_table
from sparklog.model import SegmentEntry


class MemoryManifestStore:
    """A ManifestStore for one process. `interrupt` is called before each try, to let others win."""

    def __init__(self, clock: Clock, interrupt: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._interrupt = interrupt
        self._lock = RLock()
        self._version = 0
        self._segments: dict[str, SegmentEntry] = {}
        self._states: dict[int, PartitionState] = {}
        self._closed_ms: int | None = None
        self._vacuum_horizon_ms = 0
        self._versions: dict[str, int] = {}
        self._receipts: dict[Transaction, tuple[Receipt, int | None]] = {}

    def snapshot(self) -> Snapshot:
        """Return the newest version."""
        with self._lock:
            live = [entry for entry in self._segments.values() if entry.removed_ms is None]
            shelved = [*self._removed_rows(), *self._receipt_rows()]
            return Snapshot(
                self._version,
                dict(self._states),
                lambda: segments_table(live),
                lambda: manifest_table(shelved),
                closed_ms=self._closed_ms,
                vacuum_horizon_ms=self._vacuum_horizon_ms,
                receipts=self._keys_receipts,
            )

    def _removed_rows(self) -> list[dict[str, Any]]:
        entries = self._segments.values()
        return [segment_row(entry) for entry in entries if entry.removed_ms is not None]

    def _receipt_rows(self) -> list[dict[str, Any]]:
        return [
            {"kind": RECEIPT, **transaction._asdict(), "expires_ms": expires_ms}
            for transaction, (_, expires_ms) in self._receipts.items()
        ]

    def current(self) -> Snapshot | None:
        """Return the newest version: it is always at hand."""
        return self.snapshot()

    def commit(
        self, plan: Plan, *, app_id: str | None = None, version: int | None = None
    ) -> Committed:
        """Plan on the newest snapshot and apply it, if nobody came between."""
        transaction = None if app_id is None else Transaction(app_id, version)
        for _ in range(100):
            snapshot = self.snapshot()
            replayed = self._replayed(transaction)
            if replayed is not None:
                return replayed
            change = plan(snapshot)
            if isinstance(change, Done):
                return Committed(snapshot.version, ())
            check_change(snapshot, change)
            if change.is_empty and transaction is None:
                return Committed(snapshot.version, ())
            self._interrupt()
            with self._lock:
                if self._version == snapshot.version:
                    return self._apply(snapshot, change, transaction)
        raise CommitConflictError("others kept winning 100 times")

    def _replayed(self, transaction: Transaction | None) -> Committed | None:
        if transaction is None:
            return None
        highest = self._versions.get(transaction.app_id)
        return replay(self._version, transaction, highest, self._remembered(transaction))

    def _remembered(self, transaction: Transaction) -> Receipt | None:
        receipt, expires_ms = self._receipts.get(transaction, (None, None))
        is_expired = expires_ms is not None and expires_ms < self._clock.now_ms()
        return None if is_expired else receipt

    def _keys_receipts(self, keys: Collection[str]) -> dict[str, Receipt]:
        found = {key: self._remembered(Transaction(key)) for key in keys}
        return {key: receipt for key, receipt in found.items() if receipt is not None}

    def _apply(
        self, snapshot: Snapshot, change: Change, transaction: Transaction | None
    ) -> Committed:
        ranges = change.ranges(snapshot)
        for path in change.remove:
            self._segments[path] = replace(self._segments[path], removed_ms=change.removed_ms)
        for entry in (*change.replace, *change.segments):
            self._segments[entry.log_path] = entry
            self._grow(entry.partition, PartitionState(log_end_offset=entry.next_offset))
        for partition, state in change.partitions.items():
            self._grow(partition, state)
        self._drop(change)
        self._closed_ms = change.closed_ms or self._closed_ms
        self._vacuum_horizon_ms = max(self._vacuum_horizon_ms, change.vacuum_horizon_ms or 0)
        self._version += 1
        for key, got in change.receipts.items():
            self._remember(Transaction(key), Receipt(tuple(got), change.partition_count))
        if transaction is not None:
            self._remember(transaction, Receipt(ranges, change.partition_count))
        return Committed(self._version, ranges, partition_count=change.partition_count)

    def leftovers(self) -> list[str]:
        """There are no files."""
        return []

    def _drop(self, change: Change) -> None:
        for path in change.forget:
            if path in self._segments and self._segments[path].removed_ms is not None:
                del self._segments[path]
        before_ms = change.receipts_before_ms or 0
        self._receipts = {
            transaction: (receipt, expires_ms)
            for transaction, (receipt, expires_ms) in self._receipts.items()
            if expires_ms is None or expires_ms >= before_ms
        }

    def _remember(self, transaction: Transaction, receipt: Receipt) -> None:
        if transaction.version is None:
            self._receipts[transaction] = (receipt, self._clock.now_ms() + RECEIPT_TTL_MS)
        else:
            self._receipts[transaction] = (receipt, None)
            self._versions[transaction.app_id] = transaction.version

    def _grow(self, partition: int, state: PartitionState) -> None:
        self._states[partition] = self._states.get(partition, PartitionState()).grown(state)
