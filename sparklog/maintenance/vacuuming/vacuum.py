"""Vacuum as a job: unlinks files that no row names, and that no commit may name any more.

No other job unlinks files.

    table               files that its Delta log does not name (any more): `table_garbage`
    topic               removed segments, orphans, expired receipts and producers: `vacuum_topic`
    shared segments     without a live slice, and orphans: `vacuum_shared`
    log dir             deleted topics, leftovers, other files: `vacuum_log_dir`

A gateway executes steps of the first three kinds, too (`vacuum_overdue`). The log dir is listed
once, unless a directory cannot be read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sparklog.errors import InvalidOptionError, StoragePermissionError
from sparklog.log.names import CLUSTER_METADATA, SHARED
from sparklog.maintenance.job import JobContext, Step, failing_step, tried
from sparklog.maintenance.vacuuming.vacuum_log_dir import (
    LogDirFiles,
    deleted_topic_step,
    log_dir_steps,
    unknown_topic_steps,
)
from sparklog.maintenance.vacuuming.vacuum_topic import topic_steps
from sparklog.metadata.catalog import topic_directory
from sparklog.model import TopicDescription
from sparklog.storage.files import FileStat


def vacuum(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Unlink files that nothing needs, and drop their rows.

    A name in `topics` also means deleted topics of this name. Without `topics`, files outside
    topics are vacuumed, too. `options["drop_unknown"]`: directories to erase, of topics that the
    metadata log does not know. Raises InvalidOptionError if `topics` and these directories are both
    given, and UnknownTopicError.
    """
    unknown: Sequence[str] = options.get("drop_unknown", ())
    if unknown and topics:
        problem = "names of topics and directories of unknown topics do not go together"
        raise InvalidOptionError(problem, option="drop_unknown")
    chosen = _chosen(context, topics)
    context.open_together(one for one in chosen if one.deleted_ms is None)
    left = {topic_directory(topic): topic for topic in chosen}
    found = LogDirFiles(context.catalog.image())
    errors: list[StoragePermissionError] = []
    for directory, files in _listing(context, [*left] if topics else None, errors):
        topic = left.pop(directory, None)
        if topic is None:
            found.add(directory, files)
        else:
            yield from _steps(context, topic, files)
    for topic in left.values():
        # If a directory may not be listed, each one that the log dir knows is listed by itself.
        files = context.files.list(topic_directory(topic), recursive=True) if errors else iter(())
        yield from _steps(context, topic, files)
    for error in errors:
        yield failing_step(CLUSTER_METADATA, error)
    if not topics:
        if errors:
            found.add(SHARED, context.files.list(SHARED))
        yield from unknown_topic_steps(context, found, unknown)
        yield from log_dir_steps(context, found)


def _chosen(context: JobContext, names: Sequence[str]) -> list[TopicDescription]:
    """Return the existing topics, then the deleted topics, of these names; all if none is given.

    Raises UnknownTopicError for a name that neither an existing nor a deleted topic has.
    """
    image = context.catalog.image()
    if not names:
        return [*image.names.values(), *image.deleted]
    deleted = [topic for topic in image.deleted if topic.name in names]
    gone = {topic.name for topic in deleted} - image.names.keys()
    return [*context.catalog.named(name for name in names if name not in gone), *deleted]


def _listing(
    context: JobContext, directories: Collection[str] | None, errors: list[StoragePermissionError]
) -> Iterator[tuple[str, Iterator[FileStat]]]:
    """Yield these directories of the log dir (None: all), each with the files below it.

    The directory "" has the files that lie directly in the log dir. If a directory may not
    be listed, no others follow, and its error is added to `errors`.
    """
    if directories is None:
        yield from groupby(_all_files(context, errors), key=_directory)
    else:
        for directory in directories:
            yield directory, context.files.list(directory, recursive=True)


def _all_files(context: JobContext, errors: list[StoragePermissionError]) -> Iterator[FileStat]:
    try:
        yield from context.files.list(recursive=True)
    except StoragePermissionError as error:
        errors.append(error)


def _directory(file: FileStat) -> str:
    directory, slash, _ = file.path.partition("/")
    return directory if slash else ""


def _steps(
    context: JobContext, topic: TopicDescription, files: Iterable[FileStat]
) -> Iterator[Step]:
    """Yield the steps for a topic, deleted or not, if there is anything to do."""
    if topic.deleted_ms is None:
        yield from topic_steps(context, topic, files)
    else:
        yield from tried(topic_directory(topic), deleted_topic_step(context, topic, files))
