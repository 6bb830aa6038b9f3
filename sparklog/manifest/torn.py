"""A Delta log after a power cut: which of its files are torn, and how they are put aside.

    <version>.json                 torn, empty or missing: it goes, with all that follow. With flush
                                   none of them was acknowledged: an answer waits until every entry
                                   up to its own is durable. Nor was one since: `DeltaLog` refuses
                                   a log with an entry that is empty, which delta-rs would pass over
    <version>.checkpoint.parquet   torn: the entries it stands for are there, for they are cleaned
                                   up only when it is durable
    _last_checkpoint               torn, or the name of a checkpoint that is: readers do without

Nothing is deleted: what is torn goes to `<table>/_torn/`, where Delta does not look. delta-rs makes
a file elsewhere and renames it, so what is torn is nobody's work in progress.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sparklog.clock import Clock
from sparklog.errors import CommitConflictError, CorruptMetadataError, MissingFileError
from sparklog.manifest.turn import my_turn
from sparklog.storage.files import Files

POINTER: Final = "_last_checkpoint"
TORN: Final = "_torn"

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


@dataclass(frozen=True, slots=True)
class _Log:
    """The versions of the entries and checkpoints that are there, and of those that are sound."""

    entries: frozenset[int]
    checkpoints: frozenset[int]
    sound_entries: frozenset[int]
    sound_checkpoints: frozenset[int]
    pointer: int | None
    """What the pointer names: -1 when it is torn, None when there is none."""

    @property
    def is_stillborn(self) -> bool:
        """Whether the creation of the table is all there was, and is torn."""
        return self.entries == {0} and not self.sound_entries | self.checkpoints

    def end(self) -> int | None:
        """Return the first version that cannot be read; None when no version can."""
        bases = self.sound_checkpoints & self.sound_entries
        base = max(bases, default=0)
        if base not in self.sound_entries:
            return None
        end = base
        while end in self.sound_entries:
            end += 1
        return end


def torn_files(files: Files, directory: str) -> list[str]:
    """Return the names in a table's Delta log that no reader can use; none of a sound one.

    Always none on an object store, where a file is there as a whole or not at all. Raises
    CorruptMetadataError when without them there is no version left, but for a table that was never
    more than a torn first entry.
    """
    if not files.is_local:
        return []
    log = _read(files, f"{directory}/_delta_log")
    if log.is_stillborn:
        return [f"{0:020}.json"]
    end = log.end()
    if end is None:
        if not log.entries | log.checkpoints:
            return []
        raise CorruptMetadataError(
            f"{directory}: the Delta log has neither a sound first entry nor a sound checkpoint"
        )
    late_entries = {version for version in log.entries if version >= end}
    torn = set(log.checkpoints - log.sound_checkpoints)
    torn |= {version for version in log.checkpoints if version >= end}
    is_misled = log.pointer is not None and log.pointer not in log.checkpoints - torn
    return [
        *([POINTER] if is_misled else []),
        *(f"{version:020}.checkpoint.parquet" for version in sorted(torn)),
        *(f"{version:020}.json" for version in sorted(late_entries, reverse=True)),
    ]


def put_torn_aside(files: Files, directory: str, clock: Clock) -> list[str]:
    """Move a table's torn files to `<table>/_torn/`; return their new paths.

    May be killed and run again: what leads to a torn file goes first, an entry after those that
    build on it. Raises CorruptMetadataError as `torn_files`, and CommitConflictError while others
    of this machine commit: what they clean up would be taken for lost.
    """
    with my_turn(files, directory, clock) as is_mine:
        torn = torn_files(files, directory)
        if torn and not is_mine:
            raise CommitConflictError(f"{directory}: others are committing, so nothing was mended")
        return [_moved(files, directory, name) for name in torn]


def put_stillborn_aside(files: Files, directory: str) -> bool:
    """Move the torn first entry of a table that has nothing else; return whether there was one.

    Its creation was not acknowledged, so the table may be made again.
    """
    is_stillborn = files.is_local and _read(files, f"{directory}/_delta_log").is_stillborn
    if is_stillborn:
        _moved(files, directory, f"{0:020}.json")
    return is_stillborn


def _moved(files: Files, directory: str, name: str) -> str:
    source, number = f"{directory}/_delta_log/{name}", 0
    target = f"{directory}/{TORN}/{name}"
    while files.stat(target) is not None:  # the same version was torn before
        number += 1
        target = f"{directory}/{TORN}/{name}.{number}"
    files.link_or_copy(source, target)
    files.sync([target])
    files.delete(source)
    return target


def _read(files: Files, log: str) -> _Log:
    names = [stat.path.rpartition("/")[2] for stat in files.list(log)]
    entries = {int(found[1]): found[0] for name in names if (found := _ENTRY.fullmatch(name))}
    checkpoints = {
        int(found[1]): found[0] for name in names if (found := _CHECKPOINT.fullmatch(name))
    }
    return _Log(
        frozenset(entries),
        frozenset(checkpoints),
        frozenset(v for v, name in entries.items() if _is_sound_entry(files, f"{log}/{name}")),
        frozenset(
            v for v, name in checkpoints.items() if _is_sound_parquet(files, f"{log}/{name}")
        ),
        _pointed(files, f"{log}/{POINTER}") if POINTER in names else None,
    )


def _is_sound_entry(files: Files, path: str) -> bool:
    """Whether every line is a JSON object, and there is one."""
    try:
        lines = [_object(line) for line in bytes(files.read(path)).splitlines()]
    except ValueError:
        return False
    return bool(lines)


def _object(line: bytes) -> dict[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _is_sound_parquet(files: Files, path: str) -> bool:
    try:
        pq.read_table(pa.BufferReader(pa.py_buffer(files.read(path))))
    except (pa.ArrowInvalid, OSError):
        return False
    return True


def _pointed(files: Files, path: str) -> int:
    try:
        return int(_object(bytes(files.read(path)))["version"])
    except (ValueError, KeyError, TypeError, MissingFileError):
        return -1
