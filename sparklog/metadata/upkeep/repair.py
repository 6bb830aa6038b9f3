"""Verify and repair the metadata log's own files; `maintenance` does that for segments.

    problems(files, clock)   checks every file; changes nothing
    repair(files, clock)     1  puts aside: hints that name damaged files, damaged checkpoints, then
                                the entries that cannot be read and all behind them, newest first
                             2  writes hint, checkpoint and pointer anew
                             3  makes damaged runs again by a fold, from older runs, history and
                                entries; drops the history up to a damaged history run

An entry's bytes are synced before it gets its name. So a torn entry means that the disk did not
obey an fsync. A missing entry means a power cut after commits with `flush=none`: with flush=fsync
no commit behind it was acknowledged. Damage inside the log (a flipped bit) destroys acknowledged
commits, unless a fold covers them; `problems` counts them. Repair is a command, and never
automatic. It deletes no bytes: files put aside are in `__cluster_metadata/_torn/`. If it is killed,
it may be run again.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from sparklog.clock import Clock
from sparklog.errors import CommitConflictError, CorruptMetadataError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.history.files import (
    continued,
    required,
    stored_record_of,
    unfolded_entry,
    without_damaged,
)
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import ENTRIES, TORN, last_part
from sparklog.metadata.runs.image_rows import rows_of
from sparklog.metadata.runs.rows import in_order
from sparklog.metadata.state.edit import FoldEdit
from sparklog.metadata.state.image import Image
from sparklog.metadata.turn import Turn
from sparklog.metadata.upkeep.diagnosis import Diagnosis, Problem, diagnose
from sparklog.metadata.upkeep.fold import commit_fold, fold, publish
from sparklog.storage.files import Files


def problems(files: Files, clock: Clock) -> Iterator[Problem]:
    """Yield the problems of a metadata log's files; none for a sound one.

    Raises UnsupportedFeatureError for a log of a newer release.
    """
    yield from diagnose(files, clock).problems


def repair(files: Files, clock: Clock, tell: Callable[[str], None] = lambda _: None) -> None:
    """Mend the files that can be mended; `tell` gets a line for each action when it is done.

    Raises CorruptMetadataError, and changes nothing, if no version of the log can be read without
    the damaged files; CommitConflictError while others of this machine commit, also after some
    actions if others fold.
    """
    for line in _mended(files, clock):
        tell(line)


def _mended(files: Files, clock: Clock) -> Iterator[str]:
    with Turn(files, ENTRIES, clock).taken() as is_mine:
        seen = diagnose(files, clock)
        if not seen.problems:
            return
        if files.is_local and not is_mine:
            raise CommitConflictError(
                f"{CLUSTER_METADATA}: others are committing: nothing was mended"
            )
        if _is_stillborn(seen):
            yield _put_aside(files, seen.problems[0])
            return
        hopeless = [one for one in seen.problems if not one.is_mendable]
        if seen.log is None or hopeless:
            raise CorruptMetadataError("; ".join(map(str, hopeless)))
        yield from lead_to_newest_fold(files, clock, seen)
    if seen.damaged:
        yield from _refolded(files, clock, seen)


def lead_to_newest_fold(files: Files, clock: Clock, seen: Diagnosis) -> Iterator[str]:
    """Put aside what leads elsewhere; write checkpoint and hints of the newest fold anew.

    Yield a line for each action, as soon as it is done.
    """
    yield from _all_aside(files, seen, seen.aside)
    if seen.aside:
        files.sync_directory(ENTRIES)
        files.sync_directory(CLUSTER_METADATA)
    if seen.is_misled:
        yield from _published(files, clock, seen)


def _is_stillborn(seen: Diagnosis) -> bool:
    """Whether a torn entry 0 is the only entry: then the log can be created again."""
    return seen.log is None and seen.entries == [0]


def _all_aside(files: Files, seen: Diagnosis, paths: Iterable[str]) -> Iterator[str]:
    """Put those of the files aside that are there. Sound entries have no problem of their own."""
    known = {one.path: one for one in seen.problems}
    for path in filter(files.stat, paths):
        lost = Problem(path, "behind a missing or damaged entry")
        yield _put_aside(files, known.get(path, lost))


def _put_aside(files: Files, problem: Problem) -> str:
    """Move a file with a problem to TORN, durably; return a line that says so."""
    source = problem.path
    name, number = last_part(source), 0
    target = f"{TORN}/{name}"
    while files.stat(target) is not None:  # the same version was torn before
        number += 1
        target = f"{TORN}/{name}.{number}"
    files.link_or_copy(source, target)
    files.sync([target])
    files.delete(source)
    return f"{problem}; put aside as {target}"


def _published(files: Files, clock: Clock, seen: Diagnosis) -> list[str]:
    """Write the checkpoint and the hints of the newest fold anew."""
    newest = seen.log.newest if seen.log else None
    if newest is None:
        return []
    log = MetadataLog(files, clock)
    version, made = newest
    log.go_on_from(Image(fold=made), required(log, version).decoded().log)
    publish(log, version, made)
    return [f"checkpoint and hint of version {version} are written anew"]


def _refolded(files: Files, clock: Clock, seen: Diagnosis) -> Iterator[str]:
    """Fold again without the damaged files, then put them aside; yield a line for each action."""
    log = MetadataLog(files, clock)
    if seen.rebuilt is None:
        image = fold(log, is_forced=True, damaged=seen.damaged)
    else:
        image = _folded_whole(log, seen.rebuilt, seen)
    if image is None:
        raise CommitConflictError(f"{CLUSTER_METADATA}: others are folding: run it again")
    yield f"folded anew up to version {image.fold.cover}"
    paths = [f"{CLUSTER_METADATA}/{path}" for path in sorted(seen.damaged)]
    yield from _all_aside(files, seen, paths)


def _folded_whole(log: MetadataLog, image: Image, seen: Diagnosis) -> Image | None:
    """Fold an image that was built without damaged runs into a single run."""
    before = image.fold
    unread = replace(before, runs=())  # they are damaged
    behind = range(before.cover + 1, image.version + 1)
    entries = [unfolded_entry(log, unread, version) for version in behind]
    log.go_on_from(image, entries[-1].log or entries[0].log)
    rows = in_order(rows_of(image))
    run = log.runs.write(rows, (0, image.version), log.clock.now_ms())
    before = replace(before, history=without_damaged(before, seen.damaged))
    history = continued(log, before, [stored_record_of(one) for one in entries], (run,))
    return commit_fold(log, FoldEdit(image.version, before.cover, (run,), history))
