"""One Delta table as immutable files behind an atomic commit: the only importer of deltalake.

`max_commit_retries=0` is essential: delta-rs's own conflict checker misses cases in 1.6.6 (two
overlapping compactions both commit), so a commit is made on the version this handle has read, or
not at all. delta-rs does not fsync: `manifest.synced` does.

The version that makes a hundred writes a checkpoint. Only when that is synced are the entries it
stands for cleaned up: delta-rs's own hook would unlink them while the checkpoint may still be lost
by a power cut, and would look at every entry's age on every commit.
"""

from collections.abc import Iterable, Sequence
from os import F_OK, access
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    MissingFileError,
    SparklogError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)
from sparklog.manifest.synced import SyncedLog
from sparklog.manifest.torn import put_stillborn_aside
from sparklog.storage.files import Files

CHECKPOINT_INTERVAL = 100

AFTER_A_POWER_CUT = "after a power cut, run sparklog verify --repair"

LEFTOVER_HOURS = 1
"""How long a file that has left a table stays for its readers: far longer than a read takes."""

TABLE_PROPERTIES = {
    # Nobody travels in time here. A commit lists the entries that are there, 2 ms a thousand, and
    # 30 commits a second make 100,000 in an hour: so the fewer the better. One on a version that
    # was cleaned up is refused by delta-rs, and tried again.
    "delta.logRetentionDuration": "interval 1 minutes",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.setTransactionRetentionDuration": "interval 30 days",
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
}

_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class AddedFile(NamedTuple):
    """A file to add: its name, size and Delta statistics (JSON). `is_new` is false for a fold."""

    name: str
    size_bytes: int
    statistics: str
    is_new: bool = True


class RemovedFile(NamedTuple):
    """A file to remove from the table; `is_new` is false when its rows live on in another."""

    name: str
    is_new: bool = True


class DeltaLog:
    """The Delta log in `directory` of a log dir. Not for several threads at once."""

    def __init__(self, files: Files, directory: str, schema: pa.Schema) -> None:
        self._files = files
        self._directory = directory
        self._schema = schema
        self._uri = f"{files.uri.rstrip('/')}/{directory}"
        self._synced = SyncedLog(files, directory)
        self._table: DeltaTable | None = None
        self._cleaned = -1
        self._watched = (-1, "", "")

    @classmethod
    def create(
        cls, files: Files, directory: str, schema: pa.Schema, description: str
    ) -> "DeltaLog":
        """Make the table, or find it made: creating is idempotent whoever wins."""
        log = cls(files, directory, schema)
        try:
            DeltaTable.create(
                log._uri,
                schema,
                mode="ignore",
                description=description,
                configuration=TABLE_PROPERTIES,
                storage_options=dict(files.options) or None,
            )
        except CommitFailedError:
            pass  # somebody else made it a moment ago
        except (DeltaError, OSError) as error:
            if put_stillborn_aside(files, directory):
                return cls.create(files, directory, schema, description)
            raise storage_error(f"create {directory}", error) from error
        return log

    @property
    def version(self) -> int:
        """The version read last; -1 before the first."""
        return -1 if self._table is None else int(self._table.version())

    @property
    def description(self) -> str | None:
        """What the table says it is."""
        return self._opened().metadata().description

    def refresh(self) -> int:
        """Read the log's new entries and return the version.

        Raises MissingFileError when there is no table, CorruptMetadataError when it cannot be read.
        """
        if self._table is not None:
            if self.is_newest:
                return self.version
            before = self.version
            try:
                self._table.update_incremental()
            except (DeltaError, OSError):
                self._table = None  # its next entries may have been cleaned up: open it anew
            else:
                self._check_entries(before + 1)
                return self.version
        self._opened()
        return self.version

    def _check_entries(self, first: int) -> None:
        """Raise CorruptMetadataError for an empty entry from `first` to the version read last.

        A power cut leaves such a one, and delta-rs passes over it; who commits behind it would be
        acknowledged for what `manifest.torn` then puts aside.
        """
        if not self._files.is_local:
            return
        for version in range(first, self.version + 1):
            entry = f"{self._directory}/_delta_log/{version:020}.json"
            found = self._files.stat(entry)
            if found is not None and found.bytes == 0:
                self._table = None
                raise CorruptMetadataError(f"{entry} is empty: {AFTER_A_POWER_CUT}")

    def check_present(self) -> None:
        """Raise MissingFileError when the table was deleted since it was opened.

        Reading new entries does not tell: where the whole log is gone, there are none.
        """
        entry = f"{self._directory}/_delta_log/{self.version:020}.json"
        if self._files.stat(entry) is None:
            self._table = None
            raise MissingFileError(f"{self._directory}: the table was deleted, {entry} is gone")

    @property
    def is_newest(self) -> bool:
        """Whether nothing follows the version read last; a hundred times as fast as delta-rs.

        Entries are cleaned up the oldest first, so while that of a version is there, the next one
        would be. False on an object store, where asking costs what reading does.
        """
        version = self.version
        if version < 0 or not self._files.is_local:
            return False
        if self._watched[0] != version:
            log = f"{self._uri}/_delta_log"
            self._watched = version, f"{log}/{version:020}.json", f"{log}/{version + 1:020}.json"
        _, newest, following = self._watched
        # Not exists: what is not there costs it an exception, and that is asked on every look.
        return not access(following, F_OK) and access(newest, F_OK)

    def _opened(self) -> DeltaTable:
        if self._table is None:
            try:
                self._table = self._open()
            except CorruptMetadataError:
                # What was listed may have been cleaned up before it was read: not so a second time.
                self._table = self._open()
            self._check_entries(max(0, self.version - CHECKPOINT_INTERVAL))
        return self._table

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(self._uri, storage_options=dict(self._files.options) or None)
        except TableNotFoundError as error:
            raise MissingFileError(f"{self._directory}: no Delta table here") from error
        except (DeltaError, OSError) as error:
            raise CorruptMetadataError(
                f"{self._directory}: the Delta log cannot be read ({AFTER_A_POWER_CUT}): {error}"
            ) from error

    def file_names(self) -> list[str]:
        """Return the names of the files of the version read last, without their directory."""
        return [uri.rpartition("/")[2] for uri in self._opened().file_uris()]

    def transaction_version(self, app_id: str) -> int | None:
        """Return the highest version committed by an application, None when there is none."""
        return self._opened().transaction_version(app_id)

    def commit(
        self,
        added: Sequence[AddedFile],
        removed: Sequence[RemovedFile] = (),
        *,
        now_ms: int,
        transaction: tuple[str, int | None] | None = None,
    ) -> None:
        """Commit on the version read last; adding nothing is a commit too.

        `transaction` is (app_id, version); without a version it is none of Delta's.

        Raises CommitConflictError when somebody else committed first, StorageError when the commit
        could not be written; after either the commit may still have landed.
        """
        actions: list[Any] = [
            AddAction(file.name, file.size_bytes, {}, now_ms, file.is_new, file.statistics)
            for file in added
        ]
        actions += [RemoveAction(file.name, file.is_new, now_ms) for file in removed]
        app_id, version = transaction or ("", None)
        transactions = None if version is None else [Transaction(app_id, version, now_ms)]
        table = self._opened()
        try:
            table.create_write_transaction(
                actions,
                "append",
                self._schema,
                commit_properties=CommitProperties(
                    max_commit_retries=0, app_transactions=transactions
                ),
                post_commithook_properties=_HOOKS,
            )
        except CommitFailedError as error:
            raise CommitConflictError(f"{self._directory}: {error}") from error
        except (DeltaError, OSError) as error:
            self._table = None  # the version read may be gone: what is there now is read anew
            raise storage_error(f"commit to {self._directory}", error) from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file that a commit is going to add."""
        self._files.write_new(f"{self._directory}/{name}", data)

    def read(self, name: str) -> memoryview:
        """Return the bytes of a file."""
        return self._files.read(f"{self._directory}/{name}")

    def sync_files(self, names: Iterable[str]) -> None:
        """Make new files durable, as they must be before the commit that adds them."""
        self._synced.sync_files(names)

    def sync_log(self, version: int) -> None:
        """Make the table durable as of `version`, whoever committed what it is made of.

        Raises CommitOutcomeUnknownError when that fails: others see the commit, a power cut may
        still take it.
        """
        try:
            self._synced.sync(version, self.file_names())
        except StorageError as error:
            raise CommitOutcomeUnknownError(
                f"{self._directory}: version {version} is committed, but could not be made "
                f"durable ({error}): replay with the same txnAppId and txnVersion"
            ) from error

    def leftovers(self) -> list[str]:
        """Return the names of the files that no version of the last LEFTOVER_HOURS refers to.

        The age of a file that the log names counts from its removal from the table, that of any
        other file from the time that the storage gives it. Raises StorageError.
        """
        self.refresh()
        try:
            names = self._opened().vacuum(LEFTOVER_HOURS, full=True)
        except (DeltaError, OSError) as error:
            raise storage_error(f"look for old files of {self._directory}", error) from error
        return sorted(name for name in names if name.endswith(".parquet"))

    def clean_up(self, version: int) -> None:
        """After the commit of a version that wrote a checkpoint, drop the entries it stands for.

        Best effort: what is left over goes next time. Does nothing at other versions.
        """
        if version % CHECKPOINT_INTERVAL != CHECKPOINT_INTERVAL - 1 or version == self._cleaned:
            return
        self._cleaned = version
        try:
            self._synced.sync_checkpoint()
            table = self._opened()
            table.update_incremental()
            table.cleanup_metadata()
        except (DeltaError, OSError, SparklogError):
            self._table = None


def storage_error(what: str, error: Exception) -> StorageError:
    """Map what delta-rs says in prose to the error tree."""
    text = str(error)
    lower = text.lower()
    if "no space left" in lower or "quota" in lower:
        return StorageFullError(f"{what}: {text}")
    if "permission denied" in lower or "read-only file system" in lower or "forbidden" in lower:
        return StoragePermissionError(f"{what}: {text}")
    return StorageError(f"{what}: {text}")
