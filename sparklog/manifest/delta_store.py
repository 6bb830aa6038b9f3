"""A topic's manifest as a Delta table: the commit loop.

    loop, with jittered back-off:
        read the log's new entries
        rows already name my files            -> it landed and the answer was lost: say what it got
        the receipt of (app_id, version)      -> a replay: say what the first write got
        plan, check                           -> refuse, or a Change
        write one small Parquet file of rows, and the folds that are due
        commit on the version read, or not at all
        on any error                          -> again: somebody else won, or it landed

Durability (`flush`): the Parquet files are synced before the commit; before the answer every log
entry, checkpoint and manifest file since the last version this store synced, whoever wrote them: a
later commit must not be durable on top of an earlier one that is not.
"""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import CorruptMetadataError
from sparklog.log.names import uuid7
from sparklog.manifest.changes import holders, names_segments, new_rows, rewritten
from sparklog.manifest.check import check_change
from sparklog.manifest.delta_rs import AddedFile, DeltaLog, RemovedFile
from sparklog.manifest.folding import files_to_fold, folded, rows_of
from sparklog.manifest.receipt_files import ReceiptFiles
from sparklog.manifest.receipts import Receipts, Transaction, keys_receipts, replay
from sparklog.manifest.rows import (
    COMMIT,
    LIVE,
    REMOVED,
    ManifestRows,
    delta_statistics,
    file_name,
    from_parquet,
    parse_file_name,
    to_parquet,
)
from sparklog.manifest.store import (
    Change,
    Committed,
    Done,
    PartitionState,
    Plan,
    Receipt,
    Snapshot,
)
from sparklog.manifest.tables import MANIFEST_DESCRIPTION, MANIFEST_SCHEMA, RECEIPT
from sparklog.manifest.tries import Tries
from sparklog.manifest.turn import my_turn
from sparklog.storage.files import Files

_NO_ROWS = ManifestRows(MANIFEST_SCHEMA.empty_table())


@dataclass(slots=True)
class _Pending:
    """One call of commit: what makes it happen once, and what its tries so far would have got."""

    plan: Plan
    transaction: Transaction | None
    tried: list[tuple[Change, Committed]] = field(default_factory=list)


class DeltaManifestStore:
    """A ManifestStore over `<topic directory>/manifest`. Not for several threads at once."""

    def __init__(self, files: Files, directory: str, clock: Clock, *, flush: bool = True) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._flush = flush
        self._log = DeltaLog(files, directory, MANIFEST_SCHEMA)
        self._rows: dict[str, ManifestRows] = {}
        self._receipt_files = ReceiptFiles(self._receipts_in)
        self._snapshot: Snapshot | None = None

    @classmethod
    def create(
        cls, files: Files, directory: str, clock: Clock, *, flush: bool = True
    ) -> "DeltaManifestStore":
        """Make the table of a new topic, durable when `flush`; making it twice is once."""
        DeltaLog.create(files, directory, MANIFEST_SCHEMA, MANIFEST_DESCRIPTION)
        store = cls(files, directory, clock, flush=flush)
        store._acknowledged(Committed(store.snapshot().version, ()))
        return store

    def snapshot(self) -> Snapshot:
        """Return the newest version; cheap when nothing was committed since the last call."""
        is_new = self._log.version < 0
        version = self._log.refresh()
        if is_new and self._log.description != MANIFEST_DESCRIPTION:
            raise CorruptMetadataError(
                f"{self._directory}: the table says it is {self._log.description!r}; "
                f"this release reads {MANIFEST_DESCRIPTION!r}"
            )
        if self._snapshot is None or self._snapshot.version != version:
            self._snapshot = self._read_snapshot(version)
        return self._snapshot

    def current(self) -> Snapshot | None:
        """Return the snapshot read last if nothing was committed since; reads nothing."""
        return self._snapshot if self._log.is_newest else None

    def _read_snapshot(self, version: int) -> Snapshot:
        names = set(self._log.file_names())
        self._rows = {name: rows for name, rows in self._rows.items() if name in names}
        opened = self._read_roles(COMMIT, LIVE)
        states: dict[int, PartitionState] = {}
        for rows in opened:
            for partition, state in rows.states.items():
                known = states.get(partition)
                states[partition] = known.grown(state) if known else state
        closed = [rows.closed_ms for rows in opened if rows.closed_ms is not None]
        rest = [name for name in sorted(names) if parse_file_name(name).role in (REMOVED, RECEIPT)]
        return Snapshot(
            version,
            states,
            lambda: pa.concat_tables([rows.live for rows in (*opened, _NO_ROWS)]),
            lambda: self._read_shelved(opened, rest),
            closed_ms=max(closed, default=None),
            vacuum_horizon_ms=max((rows.vacuum_horizon_ms for rows in opened), default=0),
            receipts=self._keys_receipts,
        )

    def _read_shelved(self, opened: Iterable[ManifestRows], names: Iterable[str]) -> pa.Table:
        files = [_NO_ROWS, *opened, *(self._read(name) for name in names)]
        return pa.concat_tables(
            [table for rows in files for table in (rows.removed, rows.receipts)]
        )

    def _read_roles(self, *roles: str) -> list[ManifestRows]:
        names = self._log.file_names()
        return [self._read(name) for name in names if parse_file_name(name).role in roles]

    def _read(self, name: str) -> ManifestRows:
        if name not in self._rows:
            self._rows[name] = self._parsed(name)
        return self._rows[name]

    def _glimpsed(self, name: str) -> ManifestRows:
        """Return the rows of a file without keeping them: receipts may be millions."""
        return self._rows.get(name) or self._parsed(name)

    def _parsed(self, name: str) -> ManifestRows:
        return from_parquet(self._log.read(name), f"{self._directory}/{name}")

    def commit(
        self, plan: Plan, *, app_id: str | None = None, version: int | None = None
    ) -> Committed:
        """Plan on the newest snapshot and commit until it lands."""
        pending = _Pending(plan, None if app_id is None else Transaction(app_id, version))
        with my_turn(self._files, self._directory, self._clock):
            committed = self._land(pending)
        return self._acknowledged(committed)

    def _land(self, pending: _Pending) -> Committed:
        tries = Tries(self._clock, self._directory)
        while True:
            with tries.reading():
                snapshot = self.snapshot()
                self._log.check_present()
                known = self._landed(pending) or self._replayed(snapshot, pending)
            if known is not None:
                return known
            tries.check()
            change = pending.plan(snapshot)
            if isinstance(change, Done):
                return Committed(snapshot.version, ())
            check_change(snapshot, change)
            if change.is_empty and pending.transaction is None:
                return Committed(snapshot.version, ())
            with tries:
                return self._try(snapshot, change, pending)

    def _landed(self, pending: _Pending) -> Committed | None:
        """Return what an earlier try of this call got, if the manifest says that it landed."""
        if not pending.tried:
            return None
        tables = [rows.segments for rows in self._read_roles(COMMIT, LIVE, REMOVED)]
        for change, committed in pending.tried:
            if names_segments(tables, change.segments):
                return committed
        return None

    def _replayed(self, snapshot: Snapshot, pending: _Pending) -> Committed | None:
        """Return what another call, perhaps of another process, got for the same write."""
        transaction = pending.transaction
        if transaction is None:
            return None
        app_id, version = transaction
        highest = None if version is None else self._log.transaction_version(app_id)
        if version is not None and highest is not None and highest < version:
            return None
        receipts = Receipts(self._receipt_tables({app_id}), app_id, self._clock.now_ms())
        if highest is None:
            highest = receipts.highest_version  # Delta forgets a transaction after 30 days
        return replay(snapshot.version, transaction, highest, receipts.get(version))

    def _keys_receipts(self, keys: Collection[str]) -> dict[str, Receipt]:
        return keys_receipts(self._receipt_tables(keys), keys, self._clock.now_ms())

    def _receipt_tables(self, keys: Collection[str]) -> list[pa.Table]:
        """Return the receipts that may be those of the keys."""
        names = self._log.file_names()
        folded = [name for name in names if parse_file_name(name).role == RECEIPT]
        recent = [rows.receipts for rows in self._read_roles(COMMIT, LIVE)]
        return recent + self._receipt_files.holding(folded, keys)

    def _receipts_in(self, name: str) -> pa.Table:
        return self._glimpsed(name).receipts

    def _try(self, snapshot: Snapshot, change: Change, pending: _Pending) -> Committed:
        now_ms = self._clock.now_ms()
        rows = new_rows(snapshot, change, pending.transaction, now_ms)
        added = [self._write(COMMIT, rows, now_ms)] if rows.num_rows else []
        folds, removed = self._fold(change, [file.name for file in added], now_ms)
        added += folds
        if self._flush:
            self._log.sync_files(file.name for file in added)
        ranges = change.ranges(snapshot)
        committed = Committed(snapshot.version + 1, ranges, partition_count=change.partition_count)
        pending.tried.append((change, committed))
        self._log.commit(added, removed, now_ms=now_ms, transaction=pending.transaction)
        return committed

    def _fold(
        self, change: Change, fresh: list[str], now_ms: int
    ) -> tuple[list[AddedFile], list[RemovedFile]]:
        """Write what becomes of the files that the change touches or that are due to be folded."""
        names = self._log.file_names()
        if change.forget or change.receipts_before_ms is not None:
            self._read_roles(REMOVED, RECEIPT)
        touched = holders({name: self._rows[name] for name in names if name in self._rows}, change)
        due = set(files_to_fold([*names, *fresh])).difference(touched, fresh)
        if not touched and not due:
            return [], []
        tables = [rewritten(self._read(name), change).table for name in touched]
        tables += [self._glimpsed(name).table for name in sorted(due)]
        is_new = bool(touched)
        added = [
            self._write(role, table, now_ms, is_new=is_new)
            for role, table in folded(rows_of(tables), now_ms)
        ]
        return added, [RemovedFile(name, is_new) for name in (*touched, *sorted(due))]

    def _write(self, role: str, table: pa.Table, now_ms: int, *, is_new: bool = True) -> AddedFile:
        name = file_name(role, table.num_rows, uuid7(now_ms, os.urandom(10)))
        data = to_parquet(table)
        self._log.write(name, data)
        if role != RECEIPT:
            self._rows[name] = ManifestRows(table)
        return AddedFile(name, len(data), delta_statistics(table), is_new)

    def leftovers(self) -> list[str]:
        """Return the paths of the table's own files that nobody needs any more."""
        return [f"{self._directory}/{name}" for name in self._log.leftovers()]

    def _acknowledged(self, committed: Committed) -> Committed:
        """Return it once it is durable. Outside the turn: others may commit meanwhile."""
        if self._flush:
            self._log.sync_log(committed.version)
        self._log.clean_up(committed.version)
        return committed
