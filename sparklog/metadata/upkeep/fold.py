"""Folding: the entries since the last fold become a run, and runs of similar size become one.

    read again      the entries since the last fold (`history.files.unfolded_records`)
    make rows       of the keys that these entries touched (`runs.touched`, `runs.image_rows`)
    write           a run, merged with smaller ones (`runs`), and the history (`history.files`)
    commit          the FoldEdit
    publish         Delta's checkpoint, and the hints

A fold changes no committed data, and conflicts only with other folds. Each row is rewritten
O(log n) times: a new run takes in the runs before it that are not twice its size. A process that is
killed while it folds leaves files that no entry names; vacuum deletes them when they are older than
the log dir's horizon.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import orjson
import pyarrow as pa

from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    LateWriterError,
    MissingFileError,
)
from sparklog.metadata import delta
from sparklog.metadata.history.files import (
    continued,
    unfolded_entry,
    unfolded_records,
    without_damaged,
)
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import ENTRIES, HINT, POINTER, checkpoint_path
from sparklog.metadata.runs.image_rows import rows_since
from sparklog.metadata.runs.rows import alive, in_order, merged
from sparklog.metadata.runs.touched import TouchedKeys
from sparklog.metadata.state.edit import Done, Edit, FoldEdit, RunFile
from sparklog.metadata.state.image import Image

FOLD_EVERY: Final = 256
"""Without a housekeeper, the committer of a version that is a multiple of this number folds. A
housekeeper folds when there are this many entries behind the last fold."""
FOLD_AT_THE_LATEST: Final = 1024
"""A limit: with this many entries behind the last fold, every committer folds."""

FOLD_AT_THE_LATEST_BYTES: Final = 4 * 1024 * 1024
"""A limit: with this many bytes of entries behind the last fold, every committer folds."""


def is_due(image: Image, bytes_behind: int) -> bool:
    """Whether the committer of the image's version should fold."""
    behind = image.version - image.fold.cover
    is_now = behind > 1 and image.version % FOLD_EVERY == 0
    return is_now or is_overdue(image, bytes_behind)


def is_overdue(image: Image, bytes_behind: int, times: int = 1) -> bool:
    """Whether the entries behind the last fold are too many, or have too many bytes.

    Both limits are multiplied by `times`.
    """
    behind = image.version - image.fold.cover
    return behind > 1 and (
        behind >= times * FOLD_AT_THE_LATEST or bytes_behind >= times * FOLD_AT_THE_LATEST_BYTES
    )


def fold(
    log: MetadataLog,
    *,
    is_forced: bool = False,
    damaged: Collection[str] = (),
) -> Image | None:
    """Fold all entries up to the newest; return the image after that.

    None if there is nothing to fold, or if another process was first. `is_forced` also folds
    entries that are all folds. `damaged` are files of the history to leave out. Raises StorageError
    if a file cannot be written, CorruptMetadataError if an entry cannot be read.
    """
    image = log.image()
    based_on, cover = image.fold.cover, image.version
    found, touched, is_idle = [], TouchedKeys(), True
    for record, edits in unfolded_records(log, image):
        found.append(record)
        for edit in edits:
            touched.add(edit)
            is_idle &= "fold" in edit
    if not found or (is_idle and not is_forced):
        return None
    # A topic that was only described, such as a deleted one, need not be readable.
    image = log.opened_at(image, [one for one, keys in touched.topics.items() if keys.of_parts])
    runs = _with_run(log, image, rows_since(image, touched), based_on + 1)
    before = replace(image.fold, history=without_damaged(image.fold, damaged))
    history = continued(log, before, found, runs)
    made = FoldEdit(cover, based_on, runs, history)
    return commit_fold(log, made, covered_id=image.stamp.entry_id)


def commit_fold(log: MetadataLog, made: FoldEdit, *, covered_id: str | None = None) -> Image | None:
    """Commit a fold whose files are written, and publish it; None if another fold was first.

    With `covered_id` also None if the entry at its cover has another id now: the log dir was
    replaced. Raises CorruptMetadataError if that entry is gone.
    """
    parameters = {"cover": str(made.cover), "rows": str(sum(run.rows for run in made.runs))}

    def plan(newest: Image) -> Edit | Done:
        if newest.fold.cover != made.based_on:
            return Done()
        if covered_id is not None and unfolded_entry(log, newest.fold, made.cover).id != covered_id:
            return Done()
        return Edit(operation="FOLD", parameters=parameters, fold=made)

    try:
        committed = log.commit(plan, housekeeping=False)
    except (CommitConflictError, LateWriterError):
        return None
    if committed.edit is None:
        return None
    log.bytes_behind = 0
    publish(log, committed.image.version, made)
    return committed.image


def _with_run(log: MetadataLog, image: Image, rows: pa.Table, first: int) -> tuple[RunFile, ...]:
    """Return the runs with a new one, which takes in those before it that are not twice as large.

    A run that cannot be read stays as it is: a reader of one of its topics gets the error.
    """
    kept = list(image.fold.runs)
    tables = [in_order(rows)]
    count = rows.num_rows
    while kept and kept[-1].rows <= 2 * count:
        try:
            tables.append(log.runs.whole(kept[-1]))
        except (CorruptMetadataError, MissingFileError):
            break
        run = kept.pop()
        count += run.rows
        first = run.from_version
    whole = merged(tables, drops_gone=not kept)
    if not kept:
        whole = alive(whole, {one: topic.receipts_before_ms for one, topic in image.topics.items()})
    fresh = log.runs.write(whole, (first, image.version), log.clock.now_ms())
    return (*kept, fresh)


def publish(log: MetadataLog, version: int, made: FoldEdit) -> None:
    """Write Delta's checkpoint of the fold's version, and the two hints that lead to it."""
    checkpoint = checkpoint_path(version)
    data = delta.checkpoint(delta.metadata(log.log_id), made.runs)
    if log.files.put_new(checkpoint, data):
        log.files.sync_directory(ENTRIES)
    log.files.overwrite(POINTER, delta.pointer(version, made.runs))
    log.files.overwrite(HINT, orjson.dumps({"version": version}))
