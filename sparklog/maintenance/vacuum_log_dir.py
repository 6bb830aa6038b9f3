"""What topics leave behind that do not exist: deleted ones, and creations that were cut off.

    deleted topic      after the delays: partitions -> manifest -> its row in __cluster_metadata
    unfinished topic   horizon committed -> state read -> the directory of an unknown topic id
    log dir            old files of __cluster_metadata

A deleted topic's directory goes without being read: name and configs stand in the state. A topic's
creation writes the directory and then commits the row; that commit is refused when the creation
began before the horizon (`AdminClient.create_topics`), so a directory that is older, and unknown to
the state read after the horizon, is no topic's and never will be.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sparklog.config.topic import TopicConfig
from sparklog.log.names import (
    MANIFEST,
    QUARANTINE,
    parse_segment_name,
    topic_id_of,
    uuid7_ms,
)
from sparklog.maintenance.deleting import delete_files, problems_of
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.image import Image
from sparklog.metadata.log import CLUSTER_METADATA
from sparklog.model import TopicDescription
from sparklog.storage.files import FileStat
from sparklog.storage.log_dir import META_PROPERTIES

Listing = Mapping[str, Sequence[FileStat]]
"""The files below each directory of the log dir; under "" those in the log dir itself."""


def deleted_topic_steps(
    context: JobContext, listing: Listing, topics: Iterable[TopicDescription]
) -> Iterator[Step]:
    """Yield a step for each of these topics that were deleted long enough ago."""
    now_ms = context.clock.now_ms()
    for topic in topics:
        delay_ms = TopicConfig.parse(topic.configs).delete_delay_ms
        if topic.deleted_ms is not None and topic.deleted_ms <= now_ms - delay_ms:
            directory = topic_directory(topic)
            files = listing.get(directory, ())
            rows = [_row("deleted topic", files)]
            execute = partial(_delete_topic, context, topic, files)
            yield Step(topic=directory, rows=rows, execute=execute)


def log_dir_steps(context: JobContext, listing: Listing) -> Iterator[Step]:
    """Yield a step for each directory that is no topic's, and one for the log dir itself."""
    now_ms = context.clock.now_ms()
    state = context.catalog.image()
    for directory, files in listing.items():
        if _is_unfinished(directory, files, state, _horizon_ms(now_ms)):
            rows = [_row("unfinished topic", files)]
            execute = partial(_delete_unfinished, context, directory, files)
            yield Step(topic=directory, rows=rows, execute=execute)
    yield from _own_step(context, _strangers(listing, state))


def _own_step(context: JobContext, strangers: Sequence[FileStat]) -> Iterator[Step]:
    old = context.catalog.cluster.leftovers()
    rows = []
    if old:
        rows.append({**_row("manifest files", ()), "count": len(old)})
    if strangers:
        rows.append(_row("unknown files", strangers))
    if rows:
        execute = partial(_clean_cluster_metadata, context, len(strangers))
        yield Step(topic=CLUSTER_METADATA, rows=rows, execute=execute)


def _row(what: str, files: Sequence[FileStat]) -> dict[str, Any]:
    return {
        "partition": None,
        "what": what,
        "count": len(files),
        "bytes": sum(file.bytes for file in files),
        "example": files[0].path if files else None,
    }


def _horizon_ms(now_ms: int) -> int:
    """Return the horizon of creations: what is no topic yet has the default retention."""
    return max(0, now_ms - TopicConfig.parse({}).orphan_retention_ms)


def _is_unfinished(
    directory: str, files: Sequence[FileStat], state: Image, horizon_ms: int
) -> bool:
    """Whether a directory is a topic's that never came to be, and no longer can."""
    topic_id = topic_id_of(directory)
    if topic_id is None or topic_id in state.topics:
        return False
    left = [file for file in files if not _is_below(file, QUARANTINE)]
    return bool(left) and all(_is_ours(file) and _born_ms(file) < horizon_ms for file in left)


def _is_below(file: FileStat, part: str) -> bool:
    return file.path.split("/")[1:2] == [part]


def _is_ours(file: FileStat) -> bool:
    return _is_below(file, MANIFEST) or parse_segment_name(_name(file)) is not None


def _born_ms(file: FileStat) -> int:
    """Return the age that keeps it longer: a manifest's files have no time in their names."""
    parsed = parse_segment_name(_name(file))
    return max(file.modified_ms, uuid7_ms(parsed.uuid) if parsed and parsed.uuid else 0)


def _name(file: FileStat) -> str:
    return file.path.rpartition("/")[2]


def _strangers(listing: Listing, state: Image) -> list[FileStat]:
    """Return files that are neither in a topic's directory nor the log dir's own."""
    found = []
    for directory, files in listing.items():
        topic_id = topic_id_of(directory)
        if directory == CLUSTER_METADATA or topic_id in state.topics:
            continue
        for file in files:
            is_own = not directory and file.path.startswith(META_PROPERTIES)
            is_left = topic_id is not None and (_is_ours(file) or _is_below(file, QUARANTINE))
            if not is_own and not is_left:
                found.append(file)
    return found


def _delete_topic(
    context: JobContext, topic: TopicDescription, files: Sequence[FileStat]
) -> Outcome:
    problems = _delete_directory(context, topic_directory(topic), files)
    if problems:
        return Outcome(problems=problems)

    def plan(state: Image) -> Image | None:
        if topic.topic_id not in state.topics:
            return None
        rest = {key: one for key, one in state.topics.items() if key != topic.topic_id}
        return replace(state, topics=rest)

    context.catalog.cluster.commit(plan)
    return Outcome(counts=_counts(files))


def finish_deletion(context: JobContext, topic: TopicDescription) -> Outcome:
    """Take a topic off the list whose manifest is closed: who began to delete it died."""
    now_ms = context.clock.now_ms()

    def plan(state: Image) -> Image | None:
        found = state.topics.get(topic.topic_id)
        if found is None or found.deleted_ms is not None:
            return None
        return state.with_topics(replace(found, deleted_ms=now_ms))

    context.catalog.cluster.commit(plan)
    return Outcome(counts={"topics": 1})


def _delete_unfinished(context: JobContext, directory: str, files: Sequence[FileStat]) -> Outcome:
    state = _commit_horizon(context)
    if topic_id_of(directory) in state.topics:
        return Outcome(counts=_counts(()))
    problems = _delete_directory(context, directory, files)
    return Outcome(counts={} if problems else _counts(files), problems=problems)


def _clean_cluster_metadata(context: JobContext, unknown: int) -> Outcome:
    _commit_horizon(context)
    old = context.catalog.cluster.leftovers()
    failed = delete_files(context, old, "unlinking old files of __cluster_metadata")
    counts = {"manifest_files": len(old) - len(failed), "unknown_files": unknown}
    return Outcome(counts=counts, problems=problems_of(failed))


def _commit_horizon(context: JobContext) -> Image:
    """Commit the horizon of creations, and return the state as it is then."""
    horizon_ms = _horizon_ms(context.clock.now_ms())

    def plan(state: Image) -> Image:
        return replace(state, vacuum_horizon_ms=max(state.vacuum_horizon_ms, horizon_ms))

    return context.catalog.cluster.commit(plan)


def _delete_directory(context: JobContext, directory: str, files: Sequence[FileStat]) -> list[str]:
    """Unlink a topic's directory: partitions, then the manifest; return the problems.

    What was put into quarantine stays, and the directory with it.
    """
    doomed = [file for file in files if not _is_below(file, QUARANTINE)]
    data = [file.path for file in doomed if not _is_below(file, MANIFEST)]
    problems = problems_of(delete_files(context, data, "unlinking a deleted topic"))
    if problems:
        return problems
    parts = {file.path.split("/")[1] for file in doomed if file.path.count("/") > 1}
    for part in sorted(parts - {MANIFEST}):
        context.files.delete_tree(f"{directory}/{part}")
    context.files.delete_tree(f"{directory}/{MANIFEST}")
    if next(context.files.list(directory, recursive=True), None) is None:
        context.files.delete_tree(directory)
    return []


def _counts(files: Sequence[FileStat]) -> dict[str, int]:
    gone = [file for file in files if not _is_below(file, QUARANTINE)]
    return {"files": len(gone), "bytes": sum(file.bytes for file in gone)}
