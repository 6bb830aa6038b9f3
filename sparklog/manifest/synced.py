"""Makes a Delta table durable up to a version: delta-rs itself never calls fsync.

    <table>/<manifest file>.parquet
    <table>/_delta_log/<version, 20 digits>.json
    <table>/_delta_log/<version, 20 digits>.checkpoint.parquet
    <table>/_delta_log/_last_checkpoint                  JSON: {"version": …}

What others committed is synced as well: an answer may not rest on an entry that a power cut takes.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from sparklog.errors import MissingFileError
from sparklog.storage.files import Files

TRIES: Final = 5
"""Others clean up at a checkpoint, so once a hundred commits: a second try hardly ever fails."""

Synced = TypeVar("Synced")


class SyncedLog:
    """Remembers what of one table this process has synced, so that nothing is synced twice."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._log = f"{directory}/_delta_log"
        self._version = -1
        self._checkpoint = -1
        self._names: set[str] = set()
        self._table: set[str] = set()

    def sync_files(self, names: Iterable[str]) -> None:
        """Sync the manifest files that were not synced yet, with their directories."""
        wanted = [name for name in names if name not in self._names]
        self._files.sync(f"{self._directory}/{name}" for name in wanted)
        self._names.update(wanted)

    def sync(self, version: int, names: Iterable[str]) -> None:
        """Sync the log up to `version` and the files `names`, which are those of the table."""
        if not self._files.is_local:
            return  # an object store acknowledges what it has stored
        table = set(names)
        self.sync_files(sorted(table))
        self._names -= self._table - table  # folded away; what is fresh is in neither
        self._table = table
        _as_it_changes(partial(self._sync_entries, version))
        self._version = max(self._version, version)

    def sync_checkpoint(self) -> int:
        """Sync the last checkpoint; return its version, -1 when there is none."""
        return _as_it_changes(self._sync_checkpoint)

    def _sync_entries(self, version: int) -> None:
        checkpoint = self._sync_checkpoint()
        # A checkpoint stands for what lies before its version; delta-rs reads that version's entry.
        first = max(self._version + 1, checkpoint)
        entries = [f"{self._log}/{v:020}.json" for v in range(first, version + 1)]
        # One may be cleaned up meanwhile, by somebody who synced a newer checkpoint first.
        self._files.sync(path for path in entries if self._files.stat(path) is not None)

    def _sync_checkpoint(self) -> int:
        pointer = f"{self._log}/_last_checkpoint"
        try:
            version = int(json.loads(bytes(self._files.read(pointer)))["version"])
        except (MissingFileError, ValueError, KeyError, TypeError):
            return -1  # none, or damaged: then it is not what readers start from
        if version > self._checkpoint:
            self._files.sync([f"{self._log}/{version:020}.checkpoint.parquet", pointer])
            self._checkpoint = version
        return version


def _as_it_changes(sync: Callable[[], Synced]) -> Synced:
    """Sync, again from the newest checkpoint on when a file was cleaned up under its hands."""
    for _ in range(TRIES - 1):
        with suppress(MissingFileError):
            return sync()
    return sync()
