"""Makes a Delta table durable up to a version: delta-rs itself never calls fsync.

    <table>/<manifest file>.parquet
    <table>/_delta_log/<version, 20 digits>.json
    <table>/_delta_log/<version, 20 digits>.checkpoint.parquet
    <table>/_delta_log/_last_checkpoint                  JSON: {"version": …}

What others committed is synced as well: an answer may not rest on an entry that a power cut takes.
"""

import json
from collections.abc import Iterable

from sparklog.errors import MissingFileError
from sparklog.storage.files import Files


class SyncedLog:
    """Remembers what of one table this process has synced, so that nothing is synced twice."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._log = f"{directory}/_delta_log"
        self._version = -1
        self._names: set[str] = set()

    def sync(self, version: int, names: Iterable[str]) -> None:
        """Sync the log up to `version` and the manifest files `names`, with their directories."""
        if not self._files.is_local:
            return  # an object store acknowledges what it has stored
        checkpoint, pointers = self._checkpoint()
        first = max(self._version, checkpoint) + 1  # what a checkpoint holds may be cleaned up
        entries = [f"{self._log}/{v:020}.json" for v in range(first, version + 1)]
        wanted = {name for name in names if name not in self._names}
        paths = [*(f"{self._directory}/{name}" for name in sorted(wanted)), *entries, *pointers]
        self._files.sync(path for path in paths if self._files.stat(path) is not None)
        self._version = max(self._version, version)
        self._names |= wanted

    def _checkpoint(self) -> tuple[int, list[str]]:
        """Return the last checkpoint's version if it is news (else -1), and its files."""
        pointer = f"{self._log}/_last_checkpoint"
        try:
            version = int(json.loads(bytes(self._files.read(pointer)))["version"])
        except MissingFileError:
            return -1, []
        if version <= self._version:
            return -1, []
        return version, [f"{self._log}/{version:020}.checkpoint.parquet", pointer]
