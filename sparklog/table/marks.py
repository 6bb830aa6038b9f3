"""The marks of a table: the offsets of each partition in it, as Delta transaction versions.

    appId sparklog/<topic id>/<p>          the table's end of partition p: the table has no record
                                           at or above it
    appId sparklog/<topic id>/<p>/start    the table's start: below it records may be missing
    appId sparklog/<topic id>/rows         how many rows the table has
    appId sparklog/<topic id>/version      the last version that sparklog has committed on a table
                                           without foreign changes
    appId sparklog/<topic id>/erasures     how many commits of `erase` have removed rows
    appId sparklog/<topic id>/erasing      odd while `erase` is under way; it only grows
    appId sparklog/<topic id>/horizon      files that were made before this time (ms) may be gone,
                                           unless a version names them: no later one may add them
    appId sparklog/<topic id>/log/<id>     the last version of the log (by incarnation) from which
                                           the table has records, or erasures; -1: it has none

A mark moves in the commit that adds or drops the rows, so marks and rows always agree. Delta's
protocol keeps the latest version of each appId.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

_ROWS: Final = "rows"
_VERSION: Final = "version"
_START: Final = "start"
_ERASURES: Final = "erasures"
_ERASING: Final = "erasing"
_HORIZON: Final = "horizon"
_LOG: Final = "log/"


class Mark(NamedTuple):
    """The offsets [start, end) of a partition for which the table is complete."""

    start: int
    end: int


NO_MARK: Final = Mark(0, 0)
NO_VERSION: Final = -1
"""A version below every version of a log."""


class Marks(NamedTuple):
    """All marks of a table; `version` is -1 before sparklog's first commit.

    `logs` has, by incarnation of the log dir, the last version whose records are in the table.
    `copied_ms` has, by partition, when its end last moved (ms); 0 if that is not known.
    """

    partitions: Mapping[int, Mark]
    logs: Mapping[str, int]
    rows: int = 0
    version: int = -1
    erasures: int = 0
    erasing: int = 0
    horizon_ms: int = 0
    copied_ms: Mapping[int, int] = {}

    @property
    def is_being_erased(self) -> bool:
        """Whether an `erase` has begun and not ended: log and table may differ."""
        return self.erasing % 2 == 1

    def begun(self) -> int:
        """Return `erasing` after another `erase` has begun."""
        return self.erasing + (2 if self.is_being_erased else 1)


def marks_of(transactions: Mapping[str, int], updated: Mapping[str, int], topic_id: str) -> Marks:
    """Return the marks among Delta's transactions; those of other applications are ignored.

    `updated` has the times (ms) of transactions.
    """
    prefix = f"sparklog/{topic_id}/"
    ours = {
        app_id.removeprefix(prefix): version
        for app_id, version in transactions.items()
        if app_id.startswith(prefix)
    }
    partitions = {
        int(name): Mark(ours.get(f"{name}/{_START}", 0), end)
        for name, end in ours.items()
        if name.isdecimal()
    }
    return Marks(
        dict(sorted(partitions.items())),
        {name.removeprefix(_LOG): one for name, one in ours.items() if name.startswith(_LOG)},
        ours.get(_ROWS, 0),
        ours.get(_VERSION, -1),
        ours.get(_ERASURES, 0),
        ours.get(_ERASING, 0),
        ours.get(_HORIZON, 0),
        {number: updated.get(f"{prefix}{number}", 0) for number in partitions},
    )


def transactions_of(before: Marks, after: Marks, topic_id: str) -> dict[str, int]:
    """Return Delta's transactions for marks that have changed, and always for rows and version."""
    found: dict[str, int] = {}
    for partition, mark in sorted(after.partitions.items()):
        old = before.partitions.get(partition)
        if old is None or old.end != mark.end:
            found[_app_id(topic_id, str(partition))] = mark.end
        if old is None or old.start != mark.start:
            found[_app_id(topic_id, f"{partition}/{_START}")] = mark.start
    found[_app_id(topic_id, _ROWS)] = after.rows
    found[_app_id(topic_id, _VERSION)] = after.version
    for log_id, version in after.logs.items():
        if version != before.logs.get(log_id):
            found[_app_id(topic_id, f"{_LOG}{log_id}")] = version
    if after.erasures != before.erasures:
        found[_app_id(topic_id, _ERASURES)] = after.erasures
    if after.erasing != before.erasing:
        found[_app_id(topic_id, _ERASING)] = after.erasing
    if after.horizon_ms != before.horizon_ms:
        found[_app_id(topic_id, _HORIZON)] = after.horizon_ms
    return found


def _app_id(topic_id: str, name: str) -> str:
    return f"sparklog/{topic_id}/{name}"
