"""Diagnosis of the metadata log: which files are sound, and from where the log can be opened.

entries     are decoded, with their edits files; each must have the id of the entry before it
stretch     entries that follow one another without a hole. It can be opened if it begins with
            entry 0, or if it has a fold and all entries that the fold does not cover
the log     the newest stretch that can be opened. No reader gets the entries behind it; a fold
            covers the entries before it
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import (
    CorruptMetadataError,
    LogDirError,
    MissingFileError,
    UnsupportedFeatureError,
)
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata import delta
from sparklog.metadata.codec.entry import Entry
from sparklog.metadata.follow import fold_of, hinted_version
from sparklog.metadata.history.files import open_run, records
from sparklog.metadata.history.read import oldest_version
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.marks import is_mark, newest_mark
from sparklog.metadata.names import (
    CHECKPOINT_NAME,
    ENTRIES,
    ENTRY_NAME,
    HINT,
    HISTORY,
    MARKS,
    POINTER,
    checkpoint_path,
    entry_path,
    last_part,
)
from sparklog.metadata.state.edit import FoldEdit, RunFile
from sparklog.metadata.state.image import Image
from sparklog.storage.files import Files
from sparklog.storage.local import TEMPORARY

MISSED_MAX: Final = 1_000
"""How many entries are looked for in a gap of a listing: no more commits land during a listing."""


class Problem(NamedTuple):
    """One file that is not as its writer left it, and whether `repair` can mend that."""

    path: str
    text: str
    is_mendable: bool = True

    def __str__(self) -> str:
        """Return path and text; the path once, though an error of reading has it in its text."""
        return self.text if self.path in self.text else f"{self.path}: {self.text}"


@dataclass(slots=True)
class Stretch:
    """Entries `first` to `last` without a hole, and the folds among them that can be opened."""

    first: int
    last: int
    folds: dict[int, FoldEdit] = field(default_factory=dict)

    @property
    def can_be_opened(self) -> bool:
        """Whether its entries are enough to build the image of the last one."""
        return not self.first or bool(self.folds)

    @property
    def newest(self) -> tuple[int, FoldEdit] | None:
        """The newest fold and its version; None without one."""
        return max(self.folds.items()) if self.folds else None


@dataclass(slots=True)
class Diagnosis:
    """The state of the files. `log` is None if no stretch of entries can be opened.

    `entries` are the versions of all entries. `aside` are the paths to put aside. `damaged` are
    damaged files that the newest fold names, as paths below `__cluster_metadata`. `rebuilt` is the
    image of the last entry, made without damaged runs; None if no run is damaged, or if the image
    cannot be made without them. With `is_misled` the hints must be written anew: they, the entries
    or the marks have problems.
    """

    problems: list[Problem]
    log: Stretch | None
    entries: list[int]
    aside: list[str]
    damaged: frozenset[str] = frozenset()
    rebuilt: Image | None = None
    is_misled: bool = False


def diagnose(files: Files, clock: Clock) -> Diagnosis:
    """Check every file. Raises UnsupportedFeatureError for a log of a newer release."""
    reader = MetadataLog(files, clock)
    mark = newest_mark(files)
    # Read the hints before the listing: a fold in between makes files, and hints that name them.
    hints = {path: hinted_version(files, path) for path in (POINTER, HINT) if files.stat(path)}
    listed = [last_part(stat.path) for stat in files.list(ENTRIES)]
    versions = [int(match[1]) for name in listed if (match := ENTRY_NAME.fullmatch(name))]
    versions = _with_missed(files, [one for one in versions if one >= mark.first_kept])
    broken: dict[int, str] = {}
    stretches = _stretches(reader, versions, broken)
    log = next((one for one in reversed(stretches) if one.can_be_opened), None)
    if log is None:
        found = [Problem(entry_path(version), text, False) for version, text in broken.items()]
        if versions or mark.fold >= 0:
            text = "no entry to begin with: neither entry 0 nor a fold that is whole"
            found.append(Problem(ENTRIES, text, False))
        return Diagnosis(found, None, versions, [])
    seen = Diagnosis([], log, versions, [])
    _judge_entries(seen, log, broken)
    _judge_checkpoints(reader, seen, log, listed, hints)
    if log.newest is not None:
        _judge_runs(reader, seen, log, *log.newest)
    return seen


def _with_missed(files: Files, versions: list[int]) -> list[int]:
    """Return the versions of a listing, and those that the listing missed.

    A listing is no snapshot: while commits go on, it may have an entry and lack an earlier one.
    """
    missed = [
        version
        for before, behind in pairwise(sorted(versions))
        for version in range(before + 1, min(behind, before + MISSED_MAX))
        if files.stat(entry_path(version)) is not None
    ]
    return sorted([*versions, *missed]) if missed else versions


def _stretches(reader: MetadataLog, versions: list[int], broken: dict[int, str]) -> list[Stretch]:
    """Return the stretches, oldest first; `broken` gets each entry that cannot be read."""
    found: list[Stretch] = []
    before: Entry | None = None
    previous_id = ""
    for version in versions:
        entry = _read(reader, version, broken)
        if entry is None:
            before = None
            continue
        follows = before is not None and before.version + 1 == version
        is_linked = follows and (entry.is_foreign or entry.previous == previous_id)
        if before is not None and follows and not is_linked:
            broken[version] = (
                f"{entry_path(version)}: follows entry {entry.previous!r}; the one before it is "
                f"{previous_id!r}"
            )
            before = None
            continue
        if not is_linked:
            found.append(Stretch(version, version))
        found[-1].last = version
        fold = fold_of(entry)
        if fold is not None and fold.cover + 1 >= found[-1].first:
            found[-1].folds[version] = fold
        before, previous_id = entry, previous_id if entry.is_foreign else entry.id
    return found


def _read(reader: MetadataLog, version: int, broken: dict[int, str]) -> Entry | None:
    try:
        return reader.entries.read(version)
    except UnsupportedFeatureError:
        raise
    except (CorruptMetadataError, LogDirError, MissingFileError) as error:
        broken[version] = str(error)
        return None


def _judge_entries(seen: Diagnosis, log: Stretch, broken: dict[int, str]) -> None:
    behind = [version for version in seen.entries if version > log.last]
    lost = [version for version in behind if version not in broken]
    for version, text in broken.items():
        is_covered = version < log.first
        rest = ": a fold covers it" if is_covered else ""
        seen.problems.append(Problem(entry_path(version), text + rest))
    if behind and behind[0] not in broken:
        hole = log.last + 1
        text = f"missing, and entries {behind[0]} to {behind[-1]} are behind it"
        seen.problems.append(Problem(entry_path(hole), text))
    if lost:
        text = f"{len(lost)} sound entries, {lost[0]} to {lost[-1]}, are lost behind a damaged one"
        seen.problems.append(Problem(ENTRIES, text))
    seen.aside += [entry_path(version) for version in reversed(behind)]
    seen.aside += [entry_path(version) for version in broken if version < log.first]


# ------------------------------------------------------------------------------- hints and marks


def _judge_checkpoints(
    reader: MetadataLog,
    seen: Diagnosis,
    log: Stretch,
    listed: list[str],
    hints: Mapping[str, int],
) -> None:
    checkpoints = {int(match[1]) for name in listed if (match := CHECKPOINT_NAME.fullmatch(name))}
    for version in sorted(checkpoints):
        text = _checkpoint_problem(reader, log, version)
        if text:
            checkpoints.remove(version)
            _put_aside(seen, checkpoint_path(version), text)
    _judge_hints(reader.files, seen, log, checkpoints, hints)


def _checkpoint_problem(reader: MetadataLog, log: Stretch, version: int) -> str:
    """Return the problem of a checkpoint; "" also for one that was cleaned after the listing."""
    if version > log.last:
        return "a checkpoint of an entry that is lost"
    entry = reader.entries.read(version) if version in log.folds else None
    if entry is None:
        return ""  # that is gone, too, or is being deleted
    try:
        data = reader.files.read(checkpoint_path(version))
    except MissingFileError:
        return ""
    return delta.checkpoint_problem(data, delta.metadata(entry.log), log.folds[version].runs)


def _judge_hints(
    files: Files,
    seen: Diagnosis,
    log: Stretch,
    checkpoints: Container[int],
    hints: Mapping[str, int],
) -> None:
    newest = log.newest[0] if log.newest else -1
    pointed, hinted = hints.get(POINTER), hints.get(HINT)
    if pointed is not None and pointed not in checkpoints:
        _put_aside(seen, POINTER, f"names checkpoint {pointed}, which is not there")
    elif pointed is not None and pointed in log.folds:
        said, due = bytes(files.read(POINTER)), delta.pointer(pointed, log.folds[pointed].runs)
        if said != due and hinted_version(files, POINTER) == pointed:  # no newer fold wrote it
            _put_aside(seen, POINTER, f"says {said!r} where {due!r} is due")
    if hinted is not None and hinted not in log.folds:
        is_cleaned = 0 <= hinted < newest
        text = f"names entry {hinted}, which is no fold that can be opened"
        if not is_cleaned:
            _put_aside(seen, HINT, text)
        else:
            seen.problems.append(Problem(HINT, text))
    for stat in files.list(f"{CLUSTER_METADATA}/{MARKS}"):
        if not is_mark(stat.path) and not last_part(stat.path).startswith(TEMPORARY):
            _put_aside(seen, stat.path, "is not the name of a mark")
    seen.is_misled = bool(seen.problems)


def _put_aside(seen: Diagnosis, path: str, text: str) -> None:
    seen.problems.append(Problem(path, text))
    seen.aside.insert(0, path)


# ------------------------------------------------------------------------------- the fold's files


def _judge_runs(
    reader: MetadataLog, seen: Diagnosis, log: Stretch, version: int, fold: FoldEdit
) -> None:
    """Check every page of the files that the newest fold, that of `version`, names."""
    damaged = {
        run.path: text for run in (*fold.runs, *fold.history) if (text := run_problem(reader, run))
    }
    if not damaged:
        return
    seen.damaged = frozenset(damaged)
    runs = damaged.keys() & {run.path for run in fold.runs}
    if runs:
        sound = replace(fold, history=tuple(r for r in fold.history if r.path not in damaged))
        bases = [one for at, one in sorted(log.folds.items(), reverse=True) if at < version]
        seen.rebuilt = rebuilt(reader, sound, bases, log.last)
    is_mendable = not runs or seen.rebuilt is not None
    for path, text in damaged.items():
        rest = "" if path in runs or not is_mendable else "; the history before it is lost"
        seen.problems.append(Problem(f"{CLUSTER_METADATA}/{path}", text + rest, is_mendable))


def run_problem(reader: MetadataLog, run: RunFile) -> str:
    """Return the problem of a run, a history run or a cut; "" for a sound one."""
    try:
        if not run.path.startswith(HISTORY):
            rows = reader.runs.whole(run).num_rows
        else:
            versions = open_run(reader.files, run).read(use_threads=False).column("version")
            rows = versions.length()
            if versions.to_pylist() != list(range(run.from_version, run.to_version + 1)):
                return f"does not hold the versions {run.from_version} to {run.to_version}"
    except (CorruptMetadataError, MissingFileError, pa.ArrowException, OSError) as error:
        return str(error)
    return "" if rows == run.rows else f"holds {rows} rows; the fold that names it says {run.rows}"


def rebuilt(reader: MetadataLog, fold: FoldEdit, bases: list[FoldEdit], last: int) -> Image | None:
    """Return the image of entry `last` without the runs of the newest fold; None if impossible.

    It begins with an older fold whose runs are there, or with the empty image, and applies the
    edits in the history of `fold` and in the entries behind it.
    """
    told_from = oldest_version(Image(fold=fold))
    for base in (*bases, None):
        first = base.cover + 1 if base else 0
        if told_from > first and fold.cover >= first:
            continue
        try:
            image = _whole(reader, base) if base else Image()
            for record in records(reader, fold, first, last):
                if record.version == image.version + 1:  # else a run between them is damaged
                    image = image.apply(record.edits, record.stamp)
        except (CorruptMetadataError, MissingFileError):
            continue
        if image.version == last:
            return image
    return None


def _whole(reader: MetadataLog, fold: FoldEdit) -> Image:
    image = reader.runs.image(fold)
    return image.with_topics(reader.runs.opened(fold, dict(image.topics)))
