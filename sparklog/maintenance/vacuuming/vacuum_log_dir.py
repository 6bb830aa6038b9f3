"""Vacuum of a log dir: deleted topics, and files that belong to no topic.

    deleted topic     after its delay: a commit says that the topic is being erased; its files are
                      unlinked; a commit drops it from the image
    shared segments   `vacuum_shared`
    leftovers         of the log dir, if older than its horizon: unlinked
    other files       kept and reported

A directory of a topic that the image does not know is reported, not erased: otherwise a log dir
whose metadata was restored from an older backup would lose its newest topics. `--drop-unknown` with
the directory's name erases it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from sparklog.config.topic import TopicConfig
from sparklog.errors import InvalidConfigError, UsageError
from sparklog.log.names import (
    CLUSTER_METADATA,
    GATEWAYS,
    QUARANTINE,
    SHARED,
    born_ms,
    parse_segment_name,
    topic_id_of,
)
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.maintenance.vacuuming.deleting import LOCAL_CHUNK, Sum, delete_files, problems_of
from sparklog.maintenance.vacuuming.vacuum_shared import (
    VACUUM,
    commit_horizon,
    horizon_of,
    shared_steps,
)
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.plans.backups import pinned
from sparklog.metadata.state.edit import ALL_FILES_MS, Done, Edit, TopicEdit
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.topic_image import shared_slices
from sparklog.metadata.upkeep.leftovers import leftovers
from sparklog.model import TopicDescription
from sparklog.storage.files import FileStat
from sparklog.storage.log_dir import META_PROPERTIES
from sparklog.table.schema import TABLE

LEFTOVERS: Final = "leftovers of the log dir"


class LogDirFiles:
    """The files of a log dir outside the directories of known topics, from a listing.

    `lost`: segment files of topics that seem unknown, by directory. `strange`: other unexpected
    files, by directory. `shared`: sizes of shared segments without a live slice, by path.
    """

    def __init__(self, image: Image) -> None:
        """`image` may be older than the listing."""
        self.lost: dict[str, Sum] = {}
        self.strange: dict[str, Sum] = {}
        self.shared: dict[str, int] = {}
        self._in_use = {path for path, one in image.shared.items() if one.slice_count}

    def add(self, directory: str, files: Iterable[FileStat]) -> None:
        """Add the files of one directory."""
        if directory == CLUSTER_METADATA:
            return
        for file in files:
            if directory == SHARED:
                if file.path not in self._in_use:
                    self.shared[file.path] = file.bytes
            elif _is_segments(directory, file):
                self.lost.setdefault(directory, Sum()).add(file)
            elif not _is_expected(directory, file):
                self.strange.setdefault(directory, Sum()).add(file)


def _is_segments(directory: str, file: FileStat) -> bool:
    is_topics = topic_id_of(directory) is not None and not _is_below(file, QUARANTINE)
    return is_topics and parse_segment_name(file.path.rpartition("/")[2]) is not None


def _is_expected(directory: str, file: FileStat) -> bool:
    """Whether a file belongs to the log dir, to a quarantine, or to the table of a topic."""
    if not directory:
        return file.path.startswith(META_PROPERTIES)
    if directory == GATEWAYS:
        return True
    is_kept = _is_below(file, QUARANTINE) or _is_below(file, TABLE)
    return topic_id_of(directory) is not None and is_kept


def _is_below(file: FileStat, part: str) -> bool:
    return file.path.split("/")[1:2] == [part]


# --- deleted topics ------------------------------------------------------------------------------


def deleted_topic_step(
    context: JobContext, topic: TopicDescription, files: Iterable[FileStat]
) -> Iterator[Step]:
    """Yield the step of a deleted topic, if it was deleted long enough ago."""
    config = TopicConfig.parse(topic.configs)
    needed = pinned(context.catalog.log.last_image, context.clock.now_ms())
    if (topic.deleted_ms or 0) > needed.released_ms(config.delete_delay_ms):
        return
    found = Sum()
    for file in files:
        if config.table_delete or not _is_below(file, TABLE):
            found.add(file)
    execute = partial(_delete_topic, context, topic)
    directory = topic_directory(topic)
    yield Step(topic=directory, rows=[found.as_row("deleted topic")], execute=execute)


def _delete_topic(context: JobContext, topic: TopicDescription) -> Outcome:
    """Erase a deleted topic: commit the erasure, unlink its files, forget it and its slices."""
    if not _begin_erasing(context, topic):
        return Outcome(counts={"conflicts": 1})  # undeleted meanwhile
    keeps_table = not TopicConfig.parse(topic.configs).table_delete
    outcome = _delete_directory(context, topic_directory(topic), keeps_table=keeps_table)
    if outcome.problems:
        return outcome

    def plan(image: Image) -> Edit | Done:
        known = image.topic(topic.topic_id)
        if known is None:
            return Done()
        return Edit(
            operation=VACUUM,
            parameters={"topics": topic.name, "forgotten": topic.topic_id},
            topics={topic.topic_id: TopicEdit(remove=shared_slices(known))},
            forget_topics=[topic.topic_id],
        )

    context.catalog.log.commit(plan, [topic.topic_id], patient=True)
    return outcome


def _begin_erasing(context: JobContext, topic: TopicDescription) -> bool:
    """Commit that a topic is being erased; return False if it was undeleted meanwhile."""

    def plan(image: Image) -> Edit | Done:
        known = image.topic(topic.topic_id)
        if known is None or known.deleted_ms != topic.deleted_ms or known.is_erased:
            return Done()
        return Edit(
            operation=VACUUM,
            parameters={"topics": topic.name, "erased": topic.topic_id},
            topics={topic.topic_id: TopicEdit(vacuum_horizon_ms=ALL_FILES_MS)},
        )

    known = context.catalog.log.commit(plan).image.topic(topic.topic_id)
    return known is None or known.is_erased


def _delete_directory(context: JobContext, directory: str, *, keeps_table: bool) -> Outcome:
    """Unlink a topic's files except its quarantine and, with `keeps_table`, its table."""
    files = context.files.list(directory, recursive=True)
    kept = (QUARANTINE, TABLE) if keeps_table else (QUARANTINE,)
    doomed = (file for file in files if not any(_is_below(file, part) for part in kept))
    gone, parts = Sum(), set()
    failed: dict[str, str] = {}
    while chunk := list(islice(doomed, LOCAL_CHUNK)):
        some = delete_files(context, [file.path for file in chunk], "unlinking a deleted topic")
        failed |= some
        for file in chunk:
            if file.path not in some:
                gone.add(file)
            parts.add(file.path.rpartition("/")[0])
    counts = {"files": gone.count, "bytes": gone.bytes}
    if failed:
        return Outcome(counts=counts, problems=problems_of(failed))
    for part in parts - {directory}:
        context.files.delete_tree(part)
    if next(context.files.list(directory, recursive=True), None) is None:
        context.files.delete_tree(directory)
    return Outcome(counts=counts)


# --- topics that the image does not know ---------------------------------------------------------


def unknown_topic_steps(
    context: JobContext, found: LogDirFiles, directories: Sequence[str]
) -> Iterator[Step]:
    """Yield a step to erase each of these directories, whose topics the image does not know."""
    for directory in directories:
        files = found.lost.pop(directory, None)
        if files is None:
            problem = f"{directory!r} is not the directory of an unknown topic: see a dry run"
            yield failing_step(CLUSTER_METADATA, UsageError(problem))
        else:
            execute = partial(_delete_unknown_topic, context, directory)
            yield Step(topic=directory, rows=[files.as_row("unknown topic")], execute=execute)


def _delete_unknown_topic(context: JobContext, directory: str) -> Outcome:
    """Erase a directory, unless its topic is known now, or a commit under way may create it."""
    image = commit_horizon(context, None)
    if topic_id_of(directory) in image.topics:
        return Outcome(counts={"conflicts": 1})
    for file in context.files.list(directory, recursive=True):
        if (born_ms(file.path) or 0) >= image.horizon_ms:
            problem = f"{file.path} is younger than sparklog.orphan.retention.ms: try again later"
            return Outcome(problems=[problem])
    return _delete_directory(context, directory, keeps_table=False)


# --- the log dir's own ---------------------------------------------------------------------------


def log_dir_steps(context: JobContext, found: LogDirFiles) -> Iterator[Step]:
    """Yield a step for shared segments, and one for other files, if there is anything to do."""
    image = context.catalog.image()
    try:
        yield from shared_steps(context, image, found.shared)
    except InvalidConfigError as error:  # it is unknown how long a file must stay
        yield failing_step(CLUSTER_METADATA, error)
        return
    yield from _own_step(context, image, found)


def _own_step(context: JobContext, image: Image, found: LogDirFiles) -> Iterator[Step]:
    """Yield the step that unlinks the leftovers of the log dir and reports other files."""
    later = Edit(operation=VACUUM, horizon_ms=horizon_of(image, context.clock.now_ms()))
    old = leftovers(context.catalog.log, image.apply([later], image.stamp))
    lost, strange = (
        {name: one for name, one in some.items() if topic_id_of(name) not in image.topics}
        for some in (found.lost, found.strange)
    )
    gone = Sum(len(old), 0, next(iter(old), None))
    rows = [{**gone.as_row(LEFTOVERS), "bytes": None}] if old else []
    rows += [one.as_row("unknown topic") for one in lost.values()]
    rows += [one.as_row("unknown files") for one in strange.values()]
    told = Outcome(
        counts={
            "unknown_topics": len(lost),
            "unknown_files": sum(one.count for one in strange.values()),
        },
        notes=[
            f"{directory}: {one.count} files of {one.bytes} bytes of a topic that the metadata log "
            f"does not know; they are left alone"
            for directory, one in lost.items()
        ],
    )
    if rows:
        execute = partial(_vacuum_metadata, context, told, old.values())
        yield Step(topic=CLUSTER_METADATA, rows=rows, execute=execute)


def _vacuum_metadata(context: JobContext, told: Outcome, births_ms: Collection[int]) -> Outcome:
    image = commit_horizon(context, births_ms)
    old = [*leftovers(context.catalog.log, image)]
    failed = delete_files(context, old, f"unlinking {LEFTOVERS}")
    counts = {"metadata_files": len(old) - len(failed), **told.counts}
    return replace(told, counts=counts, problems=problems_of(failed))
