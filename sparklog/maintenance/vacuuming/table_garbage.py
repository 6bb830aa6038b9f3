"""Unlinks files of a topic's table that its Delta log does not name any more, or never named.

    removed by a commit      unlinked after `sparklog.reader.grace.ms` and `file.delete.delay.ms`:
                             until then a reader may have a plan with the file. So are files of
                             another engine, if the table is sound: erased records must be gone
    named by no commit       unlinked after `sparklog.orphan.retention.ms`, by the time in the
                             file's name. Vacuum commits this horizon first, and no later commit
                             adds older files. If another engine has raised the table's protocol,
                             sparklog commits nothing, and they stay until the table is rebuilt
    of another engine, and   left to that engine's VACUUM
    named by no commit

Each committer cleans the entries and checkpoints of the Delta log (`table.delta_log`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from sparklog.config.topic import TopicConfig
from sparklog.log.names import born_ms
from sparklog.log.vacuum import horizon_above
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.maintenance.table_commit import commit_change
from sparklog.maintenance.vacuuming.deleting import Sum, delete_files, problems_of
from sparklog.model import TopicDescription
from sparklog.storage.files import FileStat
from sparklog.table.delta_log import DELTA_LOG, TOMBSTONES_KEPT_MS
from sparklog.table.of_topic import VACUUMED, Change, delta_log, table_directory
from sparklog.table.snapshot import Snapshot


def table_steps(
    context: JobContext, topic: TopicDescription, files: Iterable[FileStat]
) -> Iterator[Step]:
    """Yield the step that unlinks unneeded files; `files` are all files of the table."""
    data = [one for one in files if f"/{DELTA_LOG}/" not in one.path]
    if not data:
        return
    snapshot = delta_log(context.files, topic, context.clock).snapshot()
    bounds = _bounds(context, topic)
    doomed = [one for one in data if _is_garbage(topic, one, snapshot, bounds)]
    if doomed:
        found = Sum(len(doomed), sum(one.bytes for one in doomed), doomed[0].path)
        execute = partial(_delete, context, topic, doomed)
        yield Step(topic=topic.name, rows=[found.as_row("files of the table")], execute=execute)


class _Bounds(NamedTuple):
    """Files removed up to `released_ms` and orphans from before `horizon_ms` are unlinked."""

    released_ms: int
    horizon_ms: int


def _bounds(context: JobContext, topic: TopicDescription) -> _Bounds:
    image, needed = context.to_vacuum(topic)
    config, now_ms = TopicConfig.parse(image.description.configs), needed.now_ms
    horizon_ms = max(0, now_ms - config.orphan_retention_ms)
    if needed.version_ms is not None and now_ms - needed.version_ms >= TOMBSTONES_KEPT_MS:
        horizon_ms = 0  # the table no longer tells an orphan from a file that a backup needs
    return _Bounds(needed.released_ms(config.delete_delay_ms), horizon_ms)


def _path(topic: TopicDescription, file: FileStat) -> str:
    return file.path.removeprefix(f"{table_directory(topic)}/")


def _is_garbage(
    topic: TopicDescription, file: FileStat, snapshot: Snapshot, bounds: _Bounds
) -> bool:
    path = _path(topic, file)
    made_ms = born_ms(path)
    if path in snapshot.files:
        return False
    if path in snapshot.removed:
        is_ours = made_ms is not None
        is_due = snapshot.removed[path] <= bounds.released_ms
        return is_due and (is_ours or not snapshot.problems(topic.topic_id))
    is_orphan = made_ms is not None and made_ms < bounds.horizon_ms
    return is_orphan and snapshot.has_our_protocol


def _delete(context: JobContext, topic: TopicDescription, files: Sequence[FileStat]) -> Outcome:
    bounds = _bounds(context, topic)
    snapshot = delta_log(context.files, topic, context.clock).snapshot()
    doomed = [one for one in files if _is_garbage(topic, one, snapshot, bounds)]
    paths = [path for one in doomed if (path := _path(topic, one)) not in snapshot.removed]
    if paths:
        # A build may be about to add such a file: from this commit on it is refused. Where there
        # is no table yet, the commit makes an empty one.
        horizon_ms = horizon_above([born_ms(path) or 0 for path in paths], bounds.horizon_ms)
        change = Change(operation=VACUUMED, horizon_ms=horizon_ms)
        snapshot = commit_change(context, topic, change)
        doomed = [one for one in doomed if _is_garbage(topic, one, snapshot, bounds)]
    failed = delete_files(context, [one.path for one in doomed], "unlinking files of a table")
    gone = [one.bytes for one in doomed if one.path not in failed]
    return Outcome(counts={"files": len(gone), "bytes": sum(gone)}, problems=problems_of(failed))
