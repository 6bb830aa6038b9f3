"""Vacuum of a topic: unlinks files that no row names any more, and drops rows.

    commits the horizon -> reads the image -> unlinks files -> drops rows of segments

This order is essential. Once the horizon is committed, no commit may name an older file for the
first time. The image is read after that commit: an older file that the image does not name belongs
to no segment, now or later. The rows of removed segments are dropped last, in a commit: if a run is
killed before this commit, the next run finds the same work.

A topic with more than UNLINKED_MAX files to unlink is listed again while they are unlinked. So the
driver has in memory only the file names of one partition, and of one round of unlinking.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from typing import Any, Final, NamedTuple

from sparklog.config.topic import TopicConfig
from sparklog.errors import SparklogError, StorageFullError
from sparklog.log.names import born_ms, partition_dir
from sparklog.log.vacuum import Fate, fates, horizon_above
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step, tried
from sparklog.maintenance.vacuuming.deleting import LOCAL_CHUNK, Sum, delete_files, problems_of
from sparklog.maintenance.vacuuming.table_garbage import table_steps
from sparklog.maintenance.vacuuming.vacuum_shared import VACUUM, rounds_of
from sparklog.metadata.catalog import (
    PRODUCER_ID_EXPIRATION_MS,
    RECEIPT_TTL_MS,
    topic_directory,
)
from sparklog.metadata.log import COMMIT_TIMEOUT_MS
from sparklog.metadata.plans.backups import Pinned, pinned
from sparklog.metadata.state.check import paths_of
from sparklog.metadata.state.edit import Done, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription
from sparklog.storage.files import FileStat
from sparklog.table.schema import TABLE

GARBAGE: Final = (Fate.REMOVED, Fate.ORPHAN, Fate.UNKNOWN)
"""The fates of files that are unlinked or reported, in the order of a report."""

UNLINKED_MAX: Final = LOCAL_CHUNK
"""The most files to unlink in one round."""


def topic_steps(
    context: JobContext, topic: TopicDescription, files: Iterable[FileStat]
) -> Iterator[Step]:
    """Yield the steps for the table and for the log of a topic, if there is anything to do.

    `files` are all files of the topic, sorted by path.
    """
    of_table: list[FileStat] = []
    try:
        image = context.to_plan(topic)  # the step judges the files again, by a newer image
        needed = pinned(context.catalog.log.last_image, context.clock.now_ms())
        garbage = _garbage(topic, image, _of_log(topic_directory(topic), files, of_table), needed)
    except SparklogError as error:
        yield failing_step(topic.name, error)
        return
    # A damaged table does not keep the log from being vacuumed.
    yield from tried(topic.name, table_steps(context, topic, of_table))
    rows = garbage.rows()
    if rows:
        execute = partial(_execute, context, topic, garbage)
        yield Step(topic=topic.name, rows=rows, execute=execute)


def _of_log(
    directory: str, files: Iterable[FileStat], of_table: list[FileStat]
) -> Iterator[FileStat]:
    """Yield the files of a topic's log; add those of its table to `of_table`."""
    of_tables = f"{directory}/{TABLE}/"
    for file in files:
        if file.path.startswith(of_tables):
            of_table.append(file)
        else:
            yield file


class UnneededRows(NamedTuple):
    """How many rows of a topic go: of removed segments, of receipts, and of producers."""

    segments: int
    receipts: int
    producers: int

    @classmethod
    def of(cls, image: TopicImage, needed: Pinned) -> "UnneededRows":
        """Count them; `image` is opened. Raises InvalidConfigError."""
        now_ms = needed.now_ms
        return cls(
            image.removed_until(_released_ms(image.description, needed)),
            image.receipts_unused_since(now_ms - RECEIPT_TTL_MS),
            image.producers_unused_since(now_ms - PRODUCER_ID_EXPIRATION_MS),
        )


@dataclass(frozen=True, slots=True)
class _Garbage:
    """The garbage of one topic, counted: files by fate and partition, and rows.

    The partition is None for files outside a partition's directory. `listed` are the files, sorted
    by directory, or None if they are more than UNLINKED_MAX. `orphans_ms`: when the youngest orphan
    was made, -1 without one.
    """

    listed: Sequence[FileStat] | None
    files: Mapping[tuple[Fate, int | None], Sum]
    unneeded: UnneededRows
    orphans_ms: int

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the plan; [] if there is nothing to do or to report."""
        rows = [
            {**found.as_row(f"{fate} files"), "partition": partition}
            for wanted in GARBAGE
            for (fate, partition), found in self.files.items()
            if fate is wanted
        ]
        for what, count in (
            ("removed segments", self.unneeded.segments),
            ("expired receipts", self.unneeded.receipts),
            ("expired producers", self.unneeded.producers),
        ):
            if count:
                rows.append({**Sum(count).as_row(what), "bytes": None})
        return rows


def _garbage(
    topic: TopicDescription, image: TopicImage, files: Iterable[FileStat], needed: Pinned
) -> _Garbage:
    """Count the garbage among a topic's files by an image; `files` are sorted by path."""
    found: dict[tuple[Fate, int | None], Sum] = {}
    listed: list[FileStat] = []
    orphans_ms = -1
    horizon_ms = _horizon_ms(TopicConfig.parse(topic.configs), needed.now_ms)
    for folder, judged in _judged(topic, image, files, needed, horizon_ms):
        number = folder.rpartition("-")[2]
        partition = int(number) if number.isdecimal() else None
        for fate, file in judged:
            found.setdefault((fate, partition), Sum()).add(file)
            if fate is Fate.ORPHAN:
                orphans_ms = max(orphans_ms, born_ms(file.path) or 0)
            if len(listed) <= UNLINKED_MAX:
                listed.append(file)
    return _Garbage(
        listed if len(listed) <= UNLINKED_MAX else None,
        found,
        UnneededRows.of(image, needed),
        orphans_ms,
    )


def _judged(
    topic: TopicDescription,
    image: TopicImage,
    files: Iterable[FileStat],
    needed: Pinned,
    horizon_ms: int,
) -> Iterator[tuple[str, list[tuple[Fate, FileStat]]]]:
    """Yield the directories of a topic, each with its files that are not kept and their fates.

    `files` are sorted by path. Files that no row names are kept if they are younger than
    `horizon_ms`.
    """
    config = TopicConfig.parse(topic.configs)
    names = _Names(topic, image, needed.released_ms(config.delete_delay_ms))
    for folder, some in groupby(files, key=lambda file: file.path.split("/", 2)[1]):
        inside = {file.path.partition("/")[2]: file for file in some}
        kept, released = names.of(folder)
        judged = fates(inside, kept, released, horizon_ms)
        yield folder, [(fate, inside[path]) for fate in GARBAGE for path in judged[fate]]


def _forgettable(image: TopicImage, needed: Pinned) -> list[SegmentEntry]:
    """Return the removed segments whose rows are no longer needed by a reader or a commit."""
    released_ms = _released_ms(image.description, needed)
    return [entry for entry in image.removed if (entry.removed_ms or 0) <= released_ms]


def _released_ms(topic: TopicDescription, needed: Pinned) -> int:
    """Return the time (ms) of the latest removals whose rows are no longer needed."""
    delay_ms = TopicConfig.parse(topic.configs).delete_delay_ms
    return needed.released_ms(max(delay_ms, COMMIT_TIMEOUT_MS))


def _horizon_ms(config: TopicConfig, now_ms: int) -> int:
    return max(0, now_ms - config.orphan_retention_ms)


class _Names:
    """The files that the rows of a topic name, for one partition at a time."""

    def __init__(self, topic: TopicDescription, image: TopicImage, released_ms: int) -> None:
        """Files of segments that were removed at `released_ms` or before are released."""
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


def _execute(context: JobContext, topic: TopicDescription, garbage: _Garbage) -> Outcome:
    """Unlink a topic's garbage: of the listed files, or of all its files if these are too many.

    Files that are written meanwhile stay: they are younger than the horizon. If the disk is too
    full for the horizon's entry, the files that need no higher horizon are unlinked first.
    """
    catalog, now_ms = context.catalog, context.clock.now_ms()

    def plan(image: TopicImage) -> TopicEdit | Done:
        limit_ms = _horizon_ms(TopicConfig.parse(image.description.configs), now_ms)
        gone = _forgettable(image, Pinned(now_ms))
        births_ms = (born_ms(path) or 0 for entry in gone for path in paths_of(entry))
        horizon_ms = horizon_above([garbage.orphans_ms, *births_ms], limit_ms)
        is_higher = horizon_ms > image.vacuum_horizon_ms
        return TopicEdit(vacuum_horizon_ms=horizon_ms) if is_higher else Done()

    try:
        catalog.commit(topic, plan, operation=VACUUM)
    except StorageFullError:
        _unlink(context, _doomed(context, *context.to_vacuum(topic), garbage))
        catalog.commit(topic, plan, operation=VACUUM)
    image, needed = context.to_vacuum(topic)
    topic = image.description  # its configs may have changed since the run began
    if image.deleted_ms is not None:
        return Outcome(counts={"conflicts": 1})  # deleted meanwhile: its own step erases it
    directory = topic_directory(topic)
    unlinked, unknown, failed = _unlink(context, _doomed(context, image, needed, garbage))
    forgotten = [
        entry.key
        for entry in _forgettable(image, needed)
        if not failed or not any(f"{directory}/{path}" in failed for path in paths_of(entry))
    ]
    receipts_ms, producers_ms = now_ms - RECEIPT_TTL_MS, now_ms - PRODUCER_ID_EXPIRATION_MS

    def forgetting(keys: Sequence[SegmentKey], image: TopicImage) -> TopicEdit:
        has_receipts = image.receipts_unused_since(receipts_ms) > 0
        has_producers = image.producers_unused_since(producers_ms) > 0
        return TopicEdit(
            forget=keys,
            forget_receipts_before_ms=receipts_ms if has_receipts else None,
            forget_producers_before_ms=producers_ms if has_producers else None,
        )

    for part in rounds_of(forgotten) or [[]]:  # also without a segment there may be receipts
        told = {"forgotten": f"{len(part)}"}
        catalog.commit(topic, partial(forgetting, part), operation=VACUUM, parameters=told)
    return Outcome(
        counts={
            "files": unlinked.count,
            "bytes": unlinked.bytes,
            "segments": len(forgotten),
            "receipts": image.receipts_unused_since(receipts_ms),
            "producers": image.producers_unused_since(producers_ms),
            "unknown_files": unknown,
        },
        problems=problems_of(failed),
    )


def _doomed(
    context: JobContext, image: TopicImage, needed: Pinned, garbage: _Garbage
) -> Iterator[tuple[Fate, FileStat]]:
    """Yield a topic's garbage by an image's horizon: commits refuse older files, and no others."""
    topic = image.description
    files: Iterable[FileStat] = garbage.listed or ()
    if garbage.listed is None:
        directory = topic_directory(topic)
        files = _of_log(directory, context.files.list(directory, recursive=True), [])
    judged = _judged(topic, image, files, needed, image.vacuum_horizon_ms)
    return chain.from_iterable(some for _, some in judged)


def _unlink(
    context: JobContext, judged: Iterator[tuple[Fate, FileStat]]
) -> tuple[Sum, int, dict[str, str]]:
    """Unlink files, UNLINKED_MAX in a round; keep those whose fate is UNKNOWN.

    Returns the sum of the unlinked files, the number of unknown files, and the paths that could not
    be unlinked, each with the reason.
    """
    unlinked, unknown, failed = Sum(), 0, dict[str, str]()
    while some := list(islice(judged, UNLINKED_MAX)):
        doomed = [file for fate, file in some if fate is not Fate.UNKNOWN]
        unknown += len(some) - len(doomed)
        failed |= delete_files(context, [file.path for file in doomed], "unlinking")
        for file in doomed:
            if file.path not in failed:
                unlinked.add(file)
    return unlinked, unknown, failed
