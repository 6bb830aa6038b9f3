"""Cleaning: delete the files that a fold replaced, an hour later (ten minutes on a local disk).

    1  find the newest fold that was published `keep_ms` ago, by the store's own time, and not
       behind a version that a backup pins. Its cover is the limit
    2  sync the directory of the entries: fold and checkpoint must survive a power cut
    3  write the mark (`marks`)
    4  delete the entries up to the limit
    5  delete Delta's checkpoints before that fold, and the edits files up to the limit
    6  delete the runs, history runs and cuts that end at or below the limit and that the fold does
       not name
    7  delete smaller marks

A storage may delete in any order: the mark says that an empty slot is not the end of the log.

Any number of processes may clean at once, be killed between two steps, or go on a day later: a file
that may be deleted now may always be deleted. For entries: the limit is at or below a fold's cover,
and covers only grow. For runs: a later fold names runs of the fold before, or new runs that
end at its own cover. So no later fold names a file of step 6, not even a fold that lost the race or
was killed. A reader opens its image anew when that is older than half of `keep_ms`, so it needs no
deleted file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.follow import fold_of
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.marks import Mark, marks, newest_mark, write_mark
from sparklog.metadata.names import (
    CHECKPOINT_NAME,
    CUTS,
    EDITS,
    EDITS_NAME,
    ENTRIES,
    ENTRY_NAME,
    HINT,
    HISTORY,
    RUN_NAME,
    RUNS,
    last_part,
)
from sparklog.metadata.plans.backups import pinned
from sparklog.metadata.state.edit import FoldEdit
from sparklog.storage.files import Files, FileStat

CLEAN_MAX: Final = 32_768
"""How many files one call deletes at most; the next call deletes the others. A disk takes some five
seconds for them."""
STEP: Final = 64
"""How many local files are deleted at once: a commit waits for the file system's journal."""
PAUSE_MS: Final = 5


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of a call: the mark below which it deleted, and how many files it deleted.

    `left` is the number of files that it left to the next call.
    """

    mark: Mark
    files: int
    left: int = 0


def clean(log: MetadataLog, *, at_most: int = CLEAN_MAX) -> Cleaned | None:
    """Delete the files that no reader needs any more; None if no fold is old enough.

    Deletes at most `at_most` files. Raises StorageError; some files may be deleted then.
    """
    files = log.files
    listed = list(files.list(ENTRIES))
    found = _aged_fold(log, listed)
    if found is None:
        return None
    version, fold = found
    mark = Mark(fold.cover + 1, version)
    files.sync_directory(ENTRIES)
    if newest_mark(files) < mark:
        write_mark(files, mark)
    doomed = [*_entries(listed, mark), *_others(files, listed, mark, fold)]
    _delete(log, doomed[:at_most])
    smaller = [path for one, path in marks(files)[:-1] if one < mark]
    files.delete_many(smaller)
    deleted = min(len(doomed), at_most)
    return Cleaned(mark, deleted, len(doomed) - deleted)


def _delete(log: MetadataLog, doomed: Sequence[str]) -> None:
    """Delete files, on a local disk a few at a time, so that commits need not wait for all."""
    step = STEP if log.files.is_local else CLEAN_MAX
    for start in range(0, len(doomed), step):
        if start:
            log.clock.sleep_ms(PAUSE_MS)
        log.files.delete_many(doomed[start : start + step])


def _aged_fold(log: MetadataLog, listed: Sequence[FileStat]) -> tuple[int, FoldEdit] | None:
    """Return the newest fold that was published long enough ago, and its version; None without one.

    The modification time of the hint, which the newest fold wrote, counts as the present time: it
    is by the store's own clock, and never in the future.
    """
    hint = log.files.stat(HINT)
    if hint is None:
        return None
    before_ms = hint.modified_ms - log.keep_ms
    old = (last_part(stat.path) for stat in listed if stat.modified_ms <= before_ms)
    published = (int(match[1]) for name in old if (match := CHECKPOINT_NAME.fullmatch(name)))
    # A backup copies the runs of the newest fold that its version has, and the entries behind it.
    kept = pinned(log.image(), log.clock.now_ms()).version
    version = max((one for one in published if kept is None or one <= kept), default=-1)
    fold = fold_of(log.entries.read(version)) if version >= 0 else None
    return None if fold is None else (version, fold)


def _entries(listed: Sequence[FileStat], mark: Mark) -> Iterator[str]:
    for stat in listed:  # sorted by name, so by version
        match = ENTRY_NAME.fullmatch(last_part(stat.path))
        if match is not None and int(match[1]) < mark.first_kept:
            yield stat.path


def _others(files: Files, listed: Sequence[FileStat], mark: Mark, fold: FoldEdit) -> Iterator[str]:
    for stat in listed:
        match = CHECKPOINT_NAME.fullmatch(last_part(stat.path))
        if match is not None and int(match[1]) < mark.fold:
            yield stat.path
    for stat in files.list(f"{CLUSTER_METADATA}/{EDITS}"):
        match = EDITS_NAME.fullmatch(last_part(stat.path))
        if match is not None and int(match[1]) < mark.first_kept:
            yield stat.path
    named = {f"{CLUSTER_METADATA}/{run.path}" for run in (*fold.runs, *fold.history)}
    for directory in (RUNS, HISTORY, CUTS):
        for stat in files.list(f"{CLUSTER_METADATA}/{directory}"):
            match = RUN_NAME.fullmatch(last_part(stat.path))
            if match is not None and int(match[2]) <= fold.cover and stat.path not in named:
                yield stat.path
