"""Vacuum as a job, the only one that unlinks: what nothing refers to, and nothing may again.

    topic       horizon committed -> references read -> files unlinked -> rows dropped
    log dir     deleted topics, topics whose creation was cut off: see `maintenance.vacuum_log_dir`

The order is the protocol. Once the horizon is committed, no commit may name an older file for the
first time; so what the references read after it do not name is nobody's. The rows of removed
segments go last, in a commit: until then a run that dies is made again by the next. A manifest that
cannot be read in full stops the vacuum of its topic, for it may name any file.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparklog.config.topic import TopicConfig
from sparklog.errors import SparklogError
from sparklog.log.vacuum import Fate, fates
from sparklog.maintenance.deleting import delete_files, problems_of
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.maintenance.vacuum_log_dir import (
    Listing,
    deleted_topic_steps,
    finish_deletion,
    log_dir_steps,
)
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.edit import Done, TopicEdit
from sparklog.metadata.image import TopicImage
from sparklog.metadata.tables import PATH_COLUMNS
from sparklog.metadata.UNKNOWN import COMMIT_TIMEOUT_MS
from sparklog.model import TopicDescription
from sparklog.storage.files import FileStat


def vacuum(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Unlink files that no manifest needs, drop rows that stand for them, and old manifest files.

    A name stands for deleted topics that had it, too. Without names also what cut-off creations
    have left.
    """
    del options
    chosen, deleted = _chosen(context, topics)
    directories = [topic_directory(topic) for topic in (*chosen, *deleted)]
    listing = _listing(context, directories if topics else [""])
    for topic in chosen:
        sizes = _sizes(listing.get(topic_directory(topic), ()))
        try:
            step = _step(context, topic, sizes)
        except SparklogError as error:
            step = failing_step(topic.name, error)
        if step.rows:
            yield step
    yield from deleted_topic_steps(context, listing, deleted)
    if not topics:
        yield from log_dir_steps(context, listing)


def _chosen(
    context: JobContext, names: Sequence[str]
) -> tuple[list[TopicDescription], list[TopicDescription]]:
    """Return topics that exist and deleted ones, those of these names or all without any.

    Raises UnknownTopicError for a name that neither have.
    """
    state = context.catalog.image()
    deleted = [topic for topic in state.topics.values() if topic.deleted_ms is not None]
    if not names:
        return list(state.names.values()), deleted
    deleted = [topic for topic in deleted if topic.name in names]
    gone = {topic.name for topic in deleted} - state.names.keys()
    return [context.catalog.topic(name) for name in names if name not in gone], deleted


def _listing(context: JobContext, directories: Iterable[str]) -> Listing:
    found: dict[str, list[FileStat]] = defaultdict(list)
    for directory in directories:
        for file in context.files.list(directory, recursive=True):
            top, slash, _ = file.path.partition("/")
            found[top if slash else ""].append(file)
    return found


def _sizes(files: Iterable[FileStat]) -> dict[str, int]:
    """Return the sizes of files by their path in the topic's directory."""
    return {file.path.partition("/")[2]: file.bytes for file in files}


def _step(context: JobContext, topic: TopicDescription, sizes: Mapping[str, int]) -> Step:
    """Return the step of a topic; one without rows when there is nothing to do."""
    if context.catalog.topic_image(topic).closed_ms is not None:
        rows = [_row(None, "deletion that was cut off", 1, None, None)]
        return Step(topic=topic.name, rows=rows, execute=partial(finish_deletion, context, topic))
    rows = _leavings(context, topic, sizes, context.clock.now_ms()).rows(sizes)
    return Step(topic=topic.name, rows=rows, execute=partial(_execute, context, topic, sizes))


@dataclass(frozen=True, slots=True)
class _Leavings:
    """What vacuum finds in one topic: files by fate, and rows of the manifest to drop.

    `forgettable` are the files of each removed segment whose row may go, by its log_path.
    """

    files: Mapping[Fate, Sequence[str]]
    forgettable: Mapping[str, Sequence[str]]
    receipts: int
    manifest_files: Sequence[str]

    def rows(self, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return them for people; none when there is nothing to do or to tell."""
        rows = []
        for fate in (Fate.REMOVED, Fate.ORPHAN, Fate.UNKNOWN):
            groups: dict[str, list[str]] = defaultdict(list)
            for path in self.files[fate]:
                groups[path.partition("/")[0].rpartition("-")[2]].append(path)
            for partition, paths in groups.items():
                size = sum(sizes[path] for path in paths)
                number = int(partition) if partition.isdecimal() else None
                rows.append(_row(number, f"{fate} files", len(paths), size, paths[0]))
        for what, count in (
            ("removed segments", len(self.forgettable)),
            ("expired receipts", self.receipts),
            ("manifest files", len(self.manifest_files)),
        ):
            if count:
                rows.append(_row(None, what, count, None, None))
        return rows


def _row(
    partition: int | None, what: str, count: int, size: int | None, example: str | None
) -> dict[str, Any]:
    row = {"partition": partition, "what": what, "count": count}
    return {**row, "bytes": size, "example": example}


def _leavings(
    context: JobContext, topic: TopicDescription, sizes: Mapping[str, int], now_ms: int
) -> _Leavings:
    """Read the references and say what goes. Raises what reading the manifest raises."""
    store = context.catalog.store(topic)
    config = TopicConfig.parse(topic.configs)
    snapshot = store.snapshot()
    removed, delay_ms = snapshot.removed, config.delete_delay_ms
    released = _paths(_removed_before(removed, now_ms - delay_ms))
    lately = pc.greater(removed.column("removed_ms"), now_ms - delay_ms)
    kept = _paths(snapshot.live) | _paths(removed.filter(lately))
    forgettable = _removed_before(removed, now_ms - max(delay_ms, COMMIT_TIMEOUT_MS))
    return _Leavings(
        fates(sizes, kept, released, _horizon_ms(config, now_ms)),
        {row["log_path"]: list(row.values()) for row in forgettable.to_pylist()},
        snapshot.receipts_expired(now_ms),
        store.leftovers(),
    )


def _horizon_ms(config: TopicConfig, now_ms: int) -> int:
    return max(0, now_ms - config.orphan_retention_ms)


def _removed_before(removed: pa.Table, time_ms: int) -> pa.Table:
    return removed.filter(pc.less_equal(removed.column("removed_ms"), time_ms)).select(PATH_COLUMNS)


def _paths(segments: pa.Table) -> set[str]:
    """Return every file that the rows of segments name."""
    columns = (segments.column(name).drop_null().to_pylist() for name in PATH_COLUMNS)
    return {path for column in columns for path in column}


def _execute(context: JobContext, topic: TopicDescription, sizes: Mapping[str, int]) -> Outcome:
    """Vacuum one topic. `sizes` may be older: what came since then is above the horizon."""
    store, now_ms = context.catalog.store(topic), context.clock.now_ms()
    horizon_ms = _horizon_ms(TopicConfig.parse(topic.configs), now_ms)
    store.commit(lambda _: TopicEdit(vacuum_horizon_ms=horizon_ms))
    leavings = _leavings(context, topic, sizes, now_ms)
    directory = topic_directory(topic)
    doomed = [*leavings.files[Fate.REMOVED], *leavings.files[Fate.ORPHAN]]
    failed = delete_files(context, [f"{directory}/{path}" for path in doomed], "unlinking")
    forgotten = [
        log_path
        for log_path, paths in leavings.forgettable.items()
        if not any(f"{directory}/{path}" in failed for path in paths)
    ]
    store.commit(partial(_forgetting, forgotten=forgotten, now_ms=now_ms))
    failed |= delete_files(context, leavings.manifest_files, "unlinking old manifest files")
    gone = [path for path in doomed if f"{directory}/{path}" not in failed]
    return Outcome(
        counts={
            "files": len(gone),
            "bytes": sum(sizes[path] for path in gone),
            "segments": len(forgotten),
            "receipts": leavings.receipts,
            "manifest_files": len(leavings.manifest_files),
            "unknown_files": len(leavings.files[Fate.UNKNOWN]),
        },
        problems=problems_of(failed),
    )


def _forgetting(snapshot: TopicImage, forgotten: Sequence[str], now_ms: int) -> TopicEdit | Done:
    has_expired = snapshot.receipts_expired(now_ms) > 0
    if not forgotten and not has_expired:
        return Done()
    return TopicEdit(forget=forgotten, receipts_before_ms=now_ms if has_expired else None)
