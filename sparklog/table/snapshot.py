"""The table of a topic as of one version, computed from the actions of its Delta entries. Pure.

Any program may read the table, and may rewrite its files without changing rows (OPTIMIZE). If an
entry of another writer changes rows, columns, protocol or marks (append, DELETE, UPDATE, RESTORE,
ALTER), it is a *foreign change*. From then on the table is not a copy of the log, until it is
rebuilt.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote

from sparklog.table.marks import Marks, marks_of
from sparklog.table.schema import (
    READER_VERSION,
    SORTED,
    WRITER_VERSION,
    Action,
    has_our_columns,
)

ENGINE: Final = "sparklog/"
"""The beginning of `engineInfo` in sparklog's own entries."""
REBUILT: Final = "REBUILD TABLE"
"""The operation that empties the table; foreign changes before it no longer count."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table: its path below the table's directory, size and row count.

    `rows` and `max_timestamp` (the text of Delta's statistics) are None if the writer gave none.
    """

    path: str
    bytes: int
    rows: int | None
    max_timestamp: str | None
    action: Action = field(compare=False)

    @property
    def is_sorted(self) -> bool:
        """Whether sparklog has sorted the rows by partition and offset."""
        return SORTED in (self.action.get("tags") or {})

    @property
    def bounds(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """The least and the largest partition, and offset, of the rows; None if not known."""
        match json.loads(self.action.get("stats") or "{}"):
            case {
                "minValues": {"partition": int(low), "offset": int(first)},
                "maxValues": {"partition": int(high), "offset": int(last)},
            }:
                return (low, high), (first, last)
            case _:
                return None

    @classmethod
    def of_add(cls, add: Action) -> "DataFile":
        """Return the file of Delta's action `add`."""
        statistics = json.loads(add.get("stats") or "{}")
        largest = statistics.get("maxValues") or {}
        return cls(
            unquote(add["path"]),
            add["size"],
            statistics.get("numRecords"),
            largest.get("timestamp"),
            add,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table as of one version; version -1: there is no table.

    `files` and `removed` (times of removal, in ms) are by path, `transactions` by application.
    `updated` has the times of transactions in ms; 0 for an unknown one. `metadata` is the content
    of Delta's action. `foreign` has a line for each foreign change, oldest first.
    """

    version: int = -1
    timestamp_ms: int = 0
    metadata: Action | None = None
    protocol: Action | None = None
    files: Mapping[str, DataFile] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    updated: Mapping[str, int] = field(default_factory=dict)
    foreign: Sequence[str] = ()

    @property
    def exists(self) -> bool:
        """Whether there is a table."""
        return self.version >= 0

    @property
    def has_our_protocol(self) -> bool:
        """Whether sparklog may write to the table, which need not exist."""
        return not self.exists or not _changes({"protocol": self.protocol})

    def marks(self, topic_id: str) -> Marks:
        """Return the marks of the table of a topic."""
        return marks_of(self.transactions, self.updated, topic_id)

    def problems(self, topic_id: str) -> list[str]:
        """Return the reasons why the table is not a copy of the log; [] if it is one."""
        found = [*self.foreign]
        if not found:  # the entry that changed one of these may be gone
            state = {"protocol": self.protocol}, {"metaData": self.metadata}
            found += [
                f"another writer has changed its {name}" for one in state for name in _changes(one)
            ]
        rows, known = self.marks(topic_id).rows, [one.rows for one in self.files.values()]
        if self.exists and None not in known and sum(one or 0 for one in known) != rows:
            count = sum(one or 0 for one in known)
            found.append(f"its files hold {count} rows, sparklog has put {rows} there")
        return found

    def apply(self, version: int, actions: Sequence[Action]) -> "Snapshot":
        """Return the table after one entry."""
        files, removed = dict(self.files), dict(self.removed)
        transactions, updated = dict(self.transactions), dict(self.updated)
        metadata, protocol = self.metadata, self.protocol
        info: Action = {}
        # A DELETE with a deletion vector adds the file that it removes, in any order.
        for action in sorted(actions, key=lambda one: "remove" not in one):
            match action:
                case {"commitInfo": content}:
                    info = content
                case {"add": content}:
                    one = DataFile.of_add(content)
                    files[one.path] = one
                    removed.pop(one.path, None)
                case {"remove": content}:
                    path = unquote(content["path"])
                    files.pop(path, None)
                    removed[path] = content.get("deletionTimestamp") or 0
                case {"txn": content}:
                    transactions[content["appId"]] = content["version"]
                    updated[content["appId"]] = content.get("lastUpdated") or 0
                case {"metaData": content}:
                    metadata = content
                case {"protocol": content}:
                    protocol = content
                case _:
                    pass
        return Snapshot(
            version=version,
            timestamp_ms=info.get("timestamp") or self.timestamp_ms,
            metadata=metadata,
            protocol=protocol,
            files=files,
            removed=removed,
            transactions=transactions,
            updated=updated,
            foreign=()
            if _is_rebuilt(info)
            else (*self.foreign, *foreign_changes(version, actions)),
        )

    def without_removed_before(self, before_ms: int) -> "Snapshot":
        """Return the snapshot without tombstones of files that were removed before a time."""
        kept = {path: when for path, when in self.removed.items() if when >= before_ms}
        return replace(self, removed=kept)


def foreign_changes(version: int, actions: Sequence[Action]) -> list[str]:
    """Return a line if an entry is a foreign change, else []."""
    info: Action = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
    if is_ours(info):
        return []
    changed = [name for action in actions for name in _changes(action)]
    if not changed:
        return []
    told = f"{info.get('operation') or 'a commit'} by {info.get('engineInfo') or 'another writer'}"
    return [f"version {version} of the table is {told}, which changes its {changed[0]}"]


def is_ours(info: Mapping[str, Any]) -> bool:
    """Whether a `commitInfo` belongs to an entry of sparklog."""
    return str(info.get("engineInfo", "")).startswith(ENGINE)


def _is_rebuilt(info: Mapping[str, Any]) -> bool:
    return is_ours(info) and info.get("operation") == REBUILT


def _changes(action: Action) -> list[str]:
    match action:
        case {"add": {"dataChange": True}} | {"remove": {"dataChange": True}}:
            return ["rows"]
        case {"add": {"deletionVector": dict()}}:
            return ["rows"]
        case {"metaData": dict(content)}:
            return [] if has_our_columns(content) else ["columns or properties"]
        case {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}}:
            is_known = (reader, writer) == (READER_VERSION, WRITER_VERSION)
            return [] if is_known else ["protocol"]
        case {"txn": {"appId": app_id}} if app_id.startswith(ENGINE):
            return ["marks"]
        case _:
            return []
