r"""The entries of a topic's Delta table: reads them, puts them if absent, and deletes old ones.

The entry of version N is the file `_delta_log/<N, 20 digits>.json`, with a JSON action in each
line. It is put like an entry of the metadata log: whole, synced, under a name that only one writer
gets. If the answer to a put is lost, the content of the file shows whether the put has landed: each
try has an id of its own (`txnId`).

Every ten versions a checkpoint has the whole table, and `_last_checkpoint` names it. Other
engines' checkpoints are read too, also those of several parts and of Delta's format V2. Of the
checkpoints that are older than thirty days (Delta's logRetentionDuration) the newest stays. Entries
and checkpoints below it are deleted.
"""

import json
import logging
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    MissingFileError,
    StorageError,
)
from sparklog.metadata.codec.entry import engine
from sparklog.storage.files import Files
from sparklog.table import checkpoint
from sparklog.table.checkpoint import SIDECAR
from sparklog.table.schema import Action
from sparklog.table.snapshot import Snapshot, foreign_changes

DELTA_LOG: Final = "_delta_log"
CHECKPOINT_INTERVAL: Final = 10
ENTRIES_KEPT_MS: Final = 30 * 24 * 3600 * 1000
TOMBSTONES_KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""How long checkpoints list a removed file at least: Delta's deletedFileRetentionDuration."""
TRIES_MAX: Final = 100

_HINT: Final = "_last_checkpoint"
_JSON: Final = ".json"
_CHECKPOINT: Final = ".checkpoint.parquet"
_SIDECARS: Final = "_sidecars"
_ENTRY: Final = re.compile(r"\d{20}\.json")
_ANY_CHECKPOINT: Final = re.compile(
    r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
"""One of ours; one of several parts, with their number; one of Delta's format V2, with a UUID."""

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """An entry to put: its operation and parameters, for Delta's history, and its actions."""

    operation: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    actions: Sequence[Action] = ()


TablePlan = Callable[[Snapshot], TableCommit | None]
"""Returns the entry to put after a snapshot; None puts none. It is called again on every try."""


class DeltaLog:
    """The Delta log of the table in one directory; the table need not exist."""

    def __init__(
        self, files: Files, directory: str, topic_id: str, clock: Clock, delete_delay_ms: int = 0
    ) -> None:
        """`directory` is the table's. Removed files are unlinked after `delete_delay_ms`."""
        self._files = files
        self._directory = f"{directory}/{DELTA_LOG}"
        self._topic_id = topic_id
        self._clock = clock
        self._tombstones_kept_ms = max(TOMBSTONES_KEPT_MS, delete_delay_ms)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the newest table, or the table as of a version; version -1 if there is no table.

        Raises CorruptMetadataError naming a file that is damaged or missing.
        """
        return self._followed(self._base(version), version)

    def commit(self, plan: TablePlan) -> Snapshot:
        """Put the entry that `plan` returns; return the table after it.

        If `plan` returns None, nothing is put. Raises the errors of `plan`, CommitConflictError
        after TRIES_MAX tries, CorruptMetadataError, and StorageError.
        """
        before = self.snapshot()
        for _ in range(TRIES_MAX):
            planned = plan(before)
            if planned is None:
                return before
            entry_id = os.urandom(16).hex()
            if self._is_put(before, planned, entry_id):
                after = self._followed(before, before.version + 1)
                self._keep_house(after)
                return after
            before = self._followed(before)
        raise CommitConflictError(f"{self._directory}: others were faster {TRIES_MAX} times")

    # --- reading -----------------------------------------------------------------------------

    def _base(self, version: int | None) -> Snapshot:
        """Return the table as of the newest sound checkpoint, at or below `version` if given.

        Where there is none, the entries tell all, if the first one is still there.
        """
        damaged: CorruptMetadataError | None = None
        for found, names in self._checkpoints(version):
            try:
                return self._checked(found, self._of_checkpoint(names))
            except MissingFileError:
                continue
            except CorruptMetadataError as error:
                damaged = damaged or error
        if damaged is not None and self._entry(0) is None:
            raise damaged
        return Snapshot()

    def _checkpoints(self, version: int | None) -> Iterator[tuple[int, Sequence[str]]]:
        """Yield versions that may have a checkpoint, with its files: the hint's, then listed ones.

        The listed ones come newest first.
        """
        hint = self._hint()
        if hint is not None and (version is None or hint <= version):
            yield hint, [f"{hint:020d}{_CHECKPOINT}"]
        names = [one.path.rpartition("/")[2] for one in self._files.list(self._directory)]
        listed = complete_checkpoints(names)
        yield from (one for one in listed if version is None or one[0] <= version)

    def _of_checkpoint(self, names: Sequence[str]) -> list[Action]:
        """Return the actions of a checkpoint's files and, in Delta's format V2, of its sidecars."""
        found = [action for name in names for action in self._actions(name)]
        sidecars = [one[SIDECAR]["path"] for one in found if SIDECAR in one]
        for path in sidecars:
            found += self._actions(f"{_SIDECARS}/{unquote(path).rpartition('/')[2]}")
        return found

    def _hint(self) -> int | None:
        try:
            told = json.loads(bytes(self._files.read(f"{self._directory}/{_HINT}")))
            return None if told.get("parts") else int(told["version"])
        except (MissingFileError, ValueError, LookupError, AttributeError):
            return None

    def _actions(self, name: str) -> list[Action]:
        """Return the actions of a file of the Delta log: Parquet, or an action in each line."""
        path = f"{self._directory}/{name}"
        data = self._files.read(path)
        try:
            if name.endswith(".parquet"):
                return checkpoint.decode(data)
            return [json.loads(line) for line in bytes(data).splitlines() if line.strip()]
        except (ValueError, OSError, pa.ArrowException) as error:
            raise CorruptMetadataError(f"{path}: cannot be understood: {error!r}") from None

    def _checked(self, version: int, actions: Sequence[Action]) -> Snapshot:
        """Return a checkpoint's table, with the foreign changes since it was last sound.

        Entries that another engine has deleted tell nothing.
        """
        found = Snapshot().apply(version, actions)
        foreign: list[str] = []
        for number in range(found.marks(self._topic_id).version + 1, version + 1):
            foreign += foreign_changes(number, self._entry(number) or ())
        return replace(found, foreign=foreign)

    def _followed(self, snapshot: Snapshot, version: int | None = None) -> Snapshot:
        """Return the table after the entries that follow a snapshot, up to `version` if given."""
        while version is None or snapshot.version < version:
            actions = self._entry(snapshot.version + 1)
            if actions is None:
                if not snapshot.exists or version is not None:
                    self._require_none(snapshot.version + 1)
                return snapshot
            snapshot = snapshot.apply(snapshot.version + 1, actions)
        return snapshot

    def _entry(self, version: int) -> list[Action] | None:
        """Return the actions of an entry; None if it does not exist."""
        try:
            return self._actions(f"{version:020d}{_JSON}")
        except MissingFileError:
            return None

    def _require_none(self, version: int) -> None:
        names = [one.path.rpartition("/")[2] for one in self._files.list(self._directory)]
        entries = [_version(name) for name in names if _ENTRY.fullmatch(name)]
        later = sorted(one for one in entries if one > version)
        if later:
            path = self._path(version, _JSON)
            raise CorruptMetadataError(
                f"{path} is missing, and version {later[0]} is there: the table is damaged; "
                f"delete its directory and run build_table"
            )

    # --- writing -----------------------------------------------------------------------------

    def _is_put(self, before: Snapshot, planned: TableCommit, entry_id: str) -> bool:
        version = before.version + 1
        info = {
            "timestamp": max(self._clock.now_ms(), before.timestamp_ms),
            "operation": planned.operation,
            "operationParameters": dict(planned.parameters),
            "engineInfo": engine(),
            "txnId": entry_id,
        }
        lines = [{"commitInfo": info}, *planned.actions]
        data = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
        path = self._path(version, _JSON)
        try:
            if self._files.put_new(path, data.encode()):
                self._files.sync_directory(self._directory)
                return True
        except StorageError:
            if self._id_of(version) is None:
                raise
        return self._id_of(version) == entry_id

    def _id_of(self, version: int) -> str | None:
        """Return the id of the try that has put a version; None if the version does not exist."""
        actions = self._entry(version)
        if actions is None:
            return None
        info: Mapping[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        return str(info.get("txnId", ""))

    def _keep_house(self, after: Snapshot) -> None:
        """Keep house after a commit. The commit has landed, so a failure is only logged."""
        try:
            self._write_checkpoint(after)
        except StorageError as error:
            _logger.warning("a table has no checkpoint, or keeps old entries: %s", error)

    def _write_checkpoint(self, after: Snapshot) -> None:
        """Write a checkpoint if one is due, and then delete entries that are too old.

        A checkpoint of ours could not hold what a table of another protocol has.
        """
        is_due = after.version > 0 and after.version % CHECKPOINT_INTERVAL == 0
        if not is_due or not after.has_our_protocol:
            return
        now_ms = self._clock.now_ms()
        data = checkpoint.encode(after.without_removed_before(now_ms - self._tombstones_kept_ms))
        path = self._path(after.version, _CHECKPOINT)
        if not self._files.put_new(path, data):
            return
        self._files.sync_directory(self._directory)
        hint = {"version": after.version, "size": len(after.files) + len(after.transactions) + 2}
        self._files.overwrite(f"{self._directory}/{_HINT}", json.dumps(hint).encode())
        self._clean(now_ms - ENTRIES_KEPT_MS, after.marks(self._topic_id).version)

    def _clean(self, before_ms: int, sound: int) -> None:
        """Delete entries and checkpoints below the newest checkpoint that is older than a time.

        Entries above the version `sound` stay: they tell of foreign changes.
        """
        names = {
            one.path.rpartition("/")[2]: one.modified_ms
            for one in self._files.list(self._directory)
        }
        old = [
            _version(name)
            for name, when in names.items()
            if name.endswith(_CHECKPOINT) and when < before_ms
        ]
        doomed = [
            f"{self._directory}/{name}"
            for name in names
            if name[:20].isdecimal() and _version(name) < min(max(old, default=0), sound + 1)
        ]
        self._files.delete_many(doomed)

    def _path(self, version: int, suffix: str) -> str:
        return f"{self._directory}/{version:020d}{suffix}"


def entry_path(directory: str, version: int) -> str:
    """Return the path of an entry of the table in `directory`."""
    return f"{directory}/{DELTA_LOG}/{version:020d}{_JSON}"


def complete_checkpoints(names: Iterable[str]) -> list[tuple[int, list[str]]]:
    """Return the versions with a checkpoint among the files of a Delta log, and its files.

    The newest comes first. A checkpoint of which parts are missing is left out.
    """
    found: dict[tuple[int, int, str], list[str]] = defaultdict(list)
    for name in sorted(names):
        if match := _ANY_CHECKPOINT.fullmatch(name):
            version, parts = match.groups()
            found[int(version), int(parts or 1), "" if parts else name].append(name)
    newest = sorted(found.items(), reverse=True)
    return [(key[0], some) for key, some in newest if len(some) == key[1]]


def _version(name: str) -> int:
    """Return the version in the name of an entry or a checkpoint; -1 for any other name."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isdecimal() else -1
