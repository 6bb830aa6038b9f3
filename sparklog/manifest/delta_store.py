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
import random
import warnings
from itertools import count

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptManifestError,
    SparklogError,
    SparklogWarning,
    StorageError,
)
from sparklog.log.names import uuid7
from sparklog.manifest.changes import find_receipt, holders, new_rows, ranges_of, rewritten
from sparklog.manifest.delta_rs import AddedFile, DeltaLog, RemovedFile
from sparklog.manifest.folding import files_to_fold, folded, rows_of
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
    Snapshot,
    check_change,
)
from sparklog.manifest.synced import SyncedLog
from sparklog.manifest.tables import MANIFEST_DESCRIPTION, MANIFEST_SCHEMA, RECEIPT
from sparklog.manifest.turn import my_turn
from sparklog.storage.files import Files

_NO_ROWS = ManifestRows(MANIFEST_SCHEMA.empty_table())

COMMIT_TIMEOUT_MS = 120_000
"""How long a commit keeps trying: Kafka's delivery.timeout.ms."""

_STORAGE_TRIES = 3
_BACK_OFF_MAX_MS = 50.0


class DeltaManifestStore:
    """A ManifestStore over `<topic directory>/manifest`. Not for several threads at once."""

    def __init__(self, files: Files, directory: str, clock: Clock, *, flush: bool = True) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock
        self._flush = flush
        self._log = DeltaLog(files, directory, MANIFEST_SCHEMA)
        self._synced = SyncedLog(files, directory)
        self._rows: dict[str, ManifestRows] = {}
        self._snapshot: Snapshot | None = None

    @classmethod
    def create(
        cls, files: Files, directory: str, clock: Clock, *, flush: bool = True
    ) -> "DeltaManifestStore":
        """Make the table of a new topic, durable when `flush`; making it twice is once."""
        DeltaLog.create(files, directory, MANIFEST_SCHEMA, MANIFEST_DESCRIPTION)
        store = cls(files, directory, clock, flush=flush)
        store._sync(store.snapshot().version)
        return store

    def snapshot(self) -> Snapshot:
        """Return the newest version; cheap when nothing was committed since the last call."""
        is_new = self._log.version < 0
        version = self._log.refresh()
        if is_new and self._log.description != MANIFEST_DESCRIPTION:
            raise CorruptManifestError(
                f"{self._directory}: the table says it is {self._log.description!r}; "
                f"this release reads {MANIFEST_DESCRIPTION!r}"
            )
        if self._snapshot is None or self._snapshot.version != version:
            self._snapshot = self._read_snapshot(version)
        return self._snapshot

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
        return Snapshot(
            version,
            states,
            lambda: pa.concat_tables([rows.live for rows in (*opened, _NO_ROWS)]),
            closed_ms=max(closed, default=None),
            vacuum_horizon_ms=max((rows.vacuum_horizon_ms for rows in opened), default=0),
        )

    def _read_roles(self, *roles: str) -> list[ManifestRows]:
        names = self._log.file_names()
        return [self._read(name) for name in names if parse_file_name(name).role in roles]

    def _read(self, name: str) -> ManifestRows:
        if name not in self._rows:
            path = f"{self._directory}/{name}"
            self._rows[name] = from_parquet(self._files.read(path), path)
        return self._rows[name]

    def commit(
        self, plan: Plan, *, app_id: str | None = None, version: int | None = None
    ) -> Committed:
        """Plan on the newest snapshot and commit until it lands."""
        deadline_ms = self._clock.now_ms() + COMMIT_TIMEOUT_MS
        tried: set[str] = set()
        failures: list[StorageError] = []
        with my_turn(self._files, self._directory, self._clock):
            for attempt in count():
                snapshot, known = self._known(tried, app_id, version)
                if known is not None:
                    self._sync(known.version)
                    return known
                if len(failures) >= _STORAGE_TRIES:
                    raise failures[-1]
                try:
                    committed = self._try(snapshot, plan, tried, app_id, version)
                    self._sync(committed.version)
                    return committed
                except StorageError as error:
                    failures.append(error)
                except CommitConflictError:
                    if self._clock.now_ms() > deadline_ms:
                        raise
                self._clock.sleep_ms(min(_BACK_OFF_MAX_MS, 2.0**attempt) * random.random())  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable: the loop ends by returning or raising")

    def _known(
        self, tried: set[str], app_id: str | None, version: int | None
    ) -> tuple[Snapshot, Committed | None]:
        """Return the newest snapshot, and what an earlier try or process already got."""
        try:
            snapshot = self.snapshot()
            landed = self._landed(snapshot, tried)
            return snapshot, landed or self._replayed(snapshot, app_id, version)
        except SparklogError as error:
            if tried:
                raise CommitOutcomeUnknownError(
                    f"{self._directory}: a commit may have landed and the manifest cannot be read "
                    f"({error}): replay with the same txnAppId and txnVersion"
                ) from error
            raise

    def _landed(self, snapshot: Snapshot, tried: set[str]) -> Committed | None:
        if not tried:
            return None
        tables = [rows.segments for rows in self._read_roles(COMMIT, LIVE, REMOVED)]
        ranges = ranges_of(tables, tried)
        return Committed(snapshot.version, ranges) if ranges else None

    def _replayed(
        self, snapshot: Snapshot, app_id: str | None, version: int | None
    ) -> Committed | None:
        if app_id is None:
            return None
        highest = None if version is None else self._log.transaction_version(app_id)
        if version is not None and (highest is None or highest < version):
            return None
        if highest is None or highest == version:
            receipts = (rows.receipts for rows in self._read_roles(COMMIT, LIVE, RECEIPT))
            found = find_receipt(receipts, app_id, version, self._clock.now_ms())
            if found is not None:
                return Committed(snapshot.version, found[0], True, found[1])
            if highest is None:
                return None
        warnings.warn(
            f"{self._directory}: version {version} of {app_id!r} was committed before (up to "
            f"{highest}) and its receipt is gone: skipped, offsets unknown",
            SparklogWarning,
            stacklevel=4,
        )
        return Committed(snapshot.version, None, replayed=True)

    def _try(
        self,
        snapshot: Snapshot,
        plan: Plan,
        tried: set[str],
        app_id: str | None,
        version: int | None,
    ) -> Committed:
        change = plan(snapshot)
        if isinstance(change, Done):
            return Committed(snapshot.version, ())
        check_change(snapshot, change)
        now_ms = self._clock.now_ms()
        rows = new_rows(snapshot, change, app_id, version, now_ms)
        added = [self._write(COMMIT, rows, now_ms)] if rows.num_rows else []
        folds, removed = self._fold(change, [file.name for file in added], now_ms)
        added += folds
        if self._flush:
            self._files.sync(f"{self._directory}/{file.name}" for file in added)
        tried.update(entry.log_path for entry in change.segments)
        transaction = None if app_id is None or version is None else (app_id, version)
        self._log.commit(added, removed, now_ms=now_ms, transaction=transaction)
        return Committed(
            snapshot.version + 1,
            change.ranges(snapshot),
            partition_count=change.partition_count,
        )

    def _fold(
        self, change: Change, fresh: list[str], now_ms: int
    ) -> tuple[list[AddedFile], list[RemovedFile]]:
        """Write what becomes of the files that the change touches or that are due to be folded."""
        touched = holders(self._rows, change)
        due = files_to_fold([*self._log.file_names(), *fresh])
        names = [*touched, *(name for name in due if name not in (*touched, *fresh))]
        if not names:
            return [], []
        tables = [
            (rewritten(self._read(name), change) if name in touched else self._read(name)).table
            for name in names
        ]
        is_new = bool(touched)
        added = [
            self._write(role, table, now_ms, is_new=is_new)
            for role, table in folded(rows_of(tables), now_ms)
        ]
        return added, [RemovedFile(name, is_new) for name in names]

    def _write(self, role: str, table: pa.Table, now_ms: int, *, is_new: bool = True) -> AddedFile:
        name = file_name(role, table.num_rows, uuid7(now_ms, os.urandom(10)))
        data = to_parquet(table)
        self._files.write_new(f"{self._directory}/{name}", data)
        self._rows[name] = ManifestRows(table)
        return AddedFile(name, len(data), delta_statistics(table), is_new)

    def _sync(self, version: int) -> None:
        if self._flush:
            self._synced.sync(version, self._log.file_names())
