"""The manifest in a few dictionaries: the specification that the Delta store is tested against."""

from collections.abc import Callable
from dataclasses import replace
from threading import RLock

from sparklog.clock import Clock
from sparklog.errors import CommitConflictError
from sparklog.manifest.store import (
    RECEIPT_TTL_MS,
    Change,
    Committed,
    Done,
    PartitionState,
    Plan,
    Snapshot,
    check_change,
)
from sparklog.manifest.tables import segments_table
from sparklog.model import OffsetRange, SegmentEntry

_Receipt = tuple[tuple[OffsetRange, ...], int | None, int]


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
        self._receipts: dict[tuple[str, int | None], _Receipt] = {}

    def snapshot(self) -> Snapshot:
        """Return the newest version."""
        with self._lock:
            live = [entry for entry in self._segments.values() if entry.removed_ms is None]
            return Snapshot(
                self._version,
                dict(self._states),
                lambda: segments_table(live),
                closed_ms=self._closed_ms,
                vacuum_horizon_ms=self._vacuum_horizon_ms,
            )

    def commit(
        self, plan: Plan, *, app_id: str | None = None, version: int | None = None
    ) -> Committed:
        """Plan on the newest snapshot and apply it, if nobody came between."""
        for _ in range(100):
            snapshot = self.snapshot()
            replayed = self._replayed(app_id, version)
            if replayed is not None:
                return replayed
            change = plan(snapshot)
            if isinstance(change, Done):
                return Committed(snapshot.version, ())
            check_change(snapshot, change)
            self._interrupt()
            with self._lock:
                if self._version == snapshot.version:
                    return self._apply(snapshot, change, app_id, version)
        raise CommitConflictError("others kept winning 100 times")

    def _replayed(self, app_id: str | None, version: int | None) -> Committed | None:
        if app_id is None:
            return None
        highest = self._versions.get(app_id)
        if version is not None and highest is not None and version < highest:
            return Committed(self._version, None, replayed=True)
        receipt = self._receipts.get((app_id, version))
        if receipt is None or receipt[2] < self._clock.now_ms():
            skipped = version is not None and highest == version
            return Committed(self._version, None, replayed=True) if skipped else None
        return Committed(self._version, receipt[0], replayed=True, partition_count=receipt[1])

    def _apply(
        self, snapshot: Snapshot, change: Change, app_id: str | None, version: int | None
    ) -> Committed:
        ranges = change.ranges(snapshot)
        for path in change.remove:
            self._segments[path] = replace(self._segments[path], removed_ms=change.removed_ms)
        for entry in (*change.replace, *change.segments):
            self._segments[entry.log_path] = entry
            self._grow(entry.partition, PartitionState(log_end_offset=entry.next_offset))
        for partition, state in change.partitions.items():
            self._grow(partition, state)
        self._closed_ms = change.closed_ms or self._closed_ms
        self._vacuum_horizon_ms = max(self._vacuum_horizon_ms, change.vacuum_horizon_ms or 0)
        self._version += 1
        if app_id is not None:
            expires_ms = self._clock.now_ms() + RECEIPT_TTL_MS
            if version is not None:
                self._versions[app_id] = version
                expires_ms = 2**63 - 1
            self._receipts[app_id, version] = (ranges, change.partition_count, expires_ms)
        return Committed(self._version, ranges, partition_count=change.partition_count)

    def _grow(self, partition: int, state: PartitionState) -> None:
        self._states[partition] = self._states.get(partition, PartitionState()).grown(state)
