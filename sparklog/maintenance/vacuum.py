"""Vacuum as a job, the only one that unlinks: files that no row names, and no row may name again.

    topic       horizon committed -> image read -> files unlinked -> rows of segments dropped
    log dir     deleted topics, shared segments, leftovers: see `maintenance.vacuum_log_dir`

The order is the protocol. Once the horizon is committed, no commit may name an older file for the
first time; so a file that is older, and that the image read after it does not name, is nobody's.
The rows of removed segments go last, in a commit: until then a run that dies is made again by the
next. A log dir is listed once; the driver keeps the names of one partition, and of files to unlink.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from sparklog.config.topic import TopicConfig
from sparklog.errors import InvalidOptionError, SparklogError
from sparklog.log.names import partition_dir
from sparklog.log.vacuum import Fate, fates
from sparklog.maintenance.deleting import delete_files, problems_of
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.maintenance.vacuum_log_dir import (
    LogDirFiles,
    deleted_topic_step,
    log_dir_steps,
    unknown_topic_steps,
)
from sparklog.metadata.catalog import RECEIPT_TTL_MS, topic_directory
from sparklog.metadata.check import paths_of
from sparklog.metadata.edit import TopicEdit
from sparklog.metadata.image import TopicImage
from sparklog.metadata.log import COMMIT_TIMEOUT_MS
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import FileStat

VACUUM = "VACUUM"

Sizes = Mapping[str, int]
"""The sizes of files by their paths, relative to the topic's directory."""


def vacuum(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Unlink files that nothing needs, and drop the rows that stand for them.

    A name stands for deleted topics that had it, too. Without names also the log dir's own files
    are looked at. `options["drop_unknown"]` are directories of topics that the metadata log does
    not know, which are erased. Raises InvalidOptionError when these are given with names.
    """
    unknown: Sequence[str] = options.get("drop_unknown", ())
    if unknown and topics:
        problem = "names of topics and directories of unknown topics do not go together"
        raise InvalidOptionError(problem, option="drop_unknown")
    left = {topic_directory(topic): topic for topic in _chosen(context, topics)}
    found = LogDirFiles(context.catalog.image())
    for directory, files in _listing(context, [*left] if topics else None):
        topic = left.pop(directory, None)
        if topic is None:
            found.add(directory, files)
        else:
            yield from _steps(context, topic, files)
    for topic in left.values():
        yield from _steps(context, topic, ())
    if not topics:
        yield from unknown_topic_steps(context, found, unknown)
        yield from log_dir_steps(context, found)


def _chosen(context: JobContext, names: Sequence[str]) -> list[TopicDescription]:
    """Return topics that exist, then deleted ones: those of these names, or all without any.

    Raises UnknownTopicError for a name that neither have.
    """
    image = context.catalog.image()
    if not names:
        return [*image.names.values(), *image.deleted]
    deleted = [topic for topic in image.deleted if topic.name in names]
    gone = {topic.name for topic in deleted} - image.names.keys()
    return [*(context.catalog.topic(name) for name in names if name not in gone), *deleted]


def _listing(
    context: JobContext, directories: Collection[str] | None
) -> Iterator[tuple[str, Iterator[FileStat]]]:
    """Yield directories of the log dir, all or some, each with the files below it.

    "" holds the files of the log dir itself.
    """
    if directories is None:
        yield from groupby(context.files.list(recursive=True), key=_directory)
    else:
        for directory in directories:
            yield directory, context.files.list(directory, recursive=True)


def _directory(file: FileStat) -> str:
    directory, slash, _ = file.path.partition("/")
    return directory if slash else ""


def _steps(
    context: JobContext, topic: TopicDescription, files: Iterable[FileStat]
) -> Iterator[Step]:
    """Yield the step of a topic, if there is something to do."""
    if topic.deleted_ms is not None:
        yield from deleted_topic_step(context, topic, files)
        return
    now_ms = context.clock.now_ms()
    sizes = ((file.path.partition("/")[2], file.bytes) for file in files)
    try:
        image = context.catalog.topic_image(topic)
        garbage = _garbage(topic, image, sizes, now_ms)
    except SparklogError as error:
        yield failing_step(topic.name, error)
        return
    rows = garbage.rows()
    if rows:
        execute = partial(_execute, context, topic, garbage.sizes)
        yield Step(topic=topic.name, rows=rows, execute=execute)


@dataclass(frozen=True, slots=True)
class _Garbage:
    """The findings in one topic: files by fate, removed segments and receipts to forget."""

    files: Mapping[Fate, Sizes]
    forgettable: Sequence[SegmentEntry]
    receipts: int

    @property
    def sizes(self) -> Sizes:
        """All its files."""
        return {path: size for sizes in self.files.values() for path, size in sizes.items()}

    def rows(self) -> list[dict[str, Any]]:
        """Return it for people; empty when there is nothing to do or to report."""
        rows = []
        for fate in (Fate.REMOVED, Fate.ORPHAN, Fate.UNKNOWN):
            groups: dict[str, list[str]] = defaultdict(list)
            for path in self.files[fate]:
                groups[path.partition("/")[0].rpartition("-")[2]].append(path)
            for partition, paths in groups.items():
                size = sum(self.files[fate][path] for path in paths)
                number = int(partition) if partition.isdecimal() else None
                rows.append(_row(number, f"{fate} files", len(paths), size, paths[0]))
        for what, count in (
            ("removed segments", len(self.forgettable)),
            ("expired receipts", self.receipts),
        ):
            if count:
                rows.append(_row(None, what, count, None, None))
        return rows


def _row(
    partition: int | None, what: str, count: int, size: int | None, example: str | None
) -> dict[str, Any]:
    row = {"partition": partition, "what": what, "count": count}
    return {**row, "bytes": size, "example": example}


def _garbage(
    topic: TopicDescription, image: TopicImage, sizes: Iterable[tuple[str, int]], now_ms: int
) -> _Garbage:
    """Return the findings about some files of a topic, sorted by path, on an image."""
    config = TopicConfig.parse(topic.configs)
    delay_ms = config.delete_delay_ms
    names = _Names(topic, image, now_ms - delay_ms)
    found: dict[Fate, dict[str, int]] = {fate: {} for fate in Fate if fate is not Fate.KEPT}
    for directory, files in groupby(sizes, key=lambda file: file[0].partition("/")[0]):
        inside = dict(files)
        kept, released = names.of(directory)
        judged = fates(inside, kept, released, _horizon_ms(config, now_ms))
        for fate, some in found.items():
            some.update((path, inside[path]) for path in judged[fate])
    limit_ms = now_ms - max(delay_ms, COMMIT_TIMEOUT_MS)
    return _Garbage(
        found,
        [entry for entry in image.removed if (entry.removed_ms or 0) <= limit_ms],
        image.receipts_unused_since(now_ms - RECEIPT_TTL_MS),
    )


def _horizon_ms(config: TopicConfig, now_ms: int) -> int:
    return max(0, now_ms - config.orphan_retention_ms)


class _Names:
    """The files that the segments of a topic name, a partition at a time."""

    def __init__(self, topic: TopicDescription, image: TopicImage, released_ms: int) -> None:
        """Files of segments that were removed up to `released_ms` are released."""
        self._image = image
        self._kept: dict[int, set[str]] = defaultdict(set)
        self._released: dict[int, set[str]] = defaultdict(set)
        for entry in image.removed:
            is_released = (entry.removed_ms or 0) <= released_ms
            names = self._released if is_released else self._kept
            names[entry.partition].update(paths_of(entry))
        numbers = {*image.partitions, *range(topic.num_partitions)}
        self._numbers = {partition_dir(topic.name, number): number for number in numbers}

    def of(self, directory: str) -> tuple[set[str], set[str]]:
        """Return the kept and the released files of a partition's directory."""
        number = self._numbers.get(directory)
        if number is None:
            return set(), set()
        entries = self._image.partition(number).entries()
        live = {path for entry in entries for path in paths_of(entry)}
        return live | self._kept[number], self._released[number]


def _execute(context: JobContext, topic: TopicDescription, sizes: Sizes) -> Outcome:
    """Vacuum one topic. `sizes` may be older: files made since then are above the horizon."""
    catalog, now_ms = context.catalog, context.clock.now_ms()
    horizon_ms = _horizon_ms(TopicConfig.parse(topic.configs), now_ms)
    edit = TopicEdit(vacuum_horizon_ms=horizon_ms)
    catalog.commit(topic, lambda _: edit, operation=VACUUM)
    image = catalog.topic_image(topic)
    if image.closed_ms is not None:
        return Outcome(counts={"conflicts": 1})  # deleted meanwhile: it goes as a whole
    garbage = _garbage(topic, image, sorted(sizes.items()), now_ms)
    directory = topic_directory(topic)
    doomed = {**garbage.files[Fate.REMOVED], **garbage.files[Fate.ORPHAN]}
    failed = delete_files(context, [f"{directory}/{path}" for path in doomed], "unlinking")
    forgotten = [
        entry.key
        for entry in garbage.forgettable
        if not any(f"{directory}/{path}" in failed for path in paths_of(entry))
    ]
    before_ms = now_ms - RECEIPT_TTL_MS

    def forgetting(image: TopicImage) -> TopicEdit:
        has_expired = image.receipts_unused_since(before_ms) > 0
        return TopicEdit(
            forget=forgotten, forget_receipts_before_ms=before_ms if has_expired else None
        )

    catalog.commit(
        topic, forgetting, operation=VACUUM, parameters={"forgotten": f"{len(forgotten)}"}
    )
    gone = [size for path, size in doomed.items() if f"{directory}/{path}" not in failed]
    return Outcome(
        counts={
            "files": len(gone),
            "bytes": sum(gone),
            "segments": len(forgotten),
            "receipts": garbage.receipts,
            "unknown_files": len(garbage.files[Fate.UNKNOWN]),
        },
        problems=problems_of(failed),
    )
