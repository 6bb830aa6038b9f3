"""Builds indexes as a job: those that a writer has left to it, missing ones and damaged ones.

    default    indexes that a writer has left to this job (`index.build=job`), by the image
    `list`     also indexes whose file is missing or has another size, by a listing of the files
    `check`    reads every log, and builds the indexes that differ from the right ones
    `rebuild`  builds every index again

Each segment is a task: it reads the log, verifies every checksum, builds, writes and syncs the
indexes. One commit for each topic swaps the paths in the rows.

An offset or time index is a pure function of its log (LogSegment.recover), so every builder makes
the same. A key index is built only if it is missing or damaged, or with `rebuild`.
Readers continue meanwhile, with the old index or without one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparklog.config import TopicConfig
from sparklog.errors import SparklogError
from sparklog.indexes import COLUMNS, commit_indexes, rebuilt
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.metadata.catalog import topic_directory
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files

Sizes = Mapping[str, int]
"""The sizes of index files by their paths, relative to the topic's directory."""
_Needed = tuple[SegmentEntry, str]
"""A segment whose indexes must be built or compared, and the reason."""


@dataclass(frozen=True, slots=True)
class IndexesMade:
    """Segments that were read, rows that were committed, conflicts, and problems.

    A conflict is a row that had changed meanwhile, or has gone.
    """

    read: Sequence[SegmentEntry]
    landed: Sequence[SegmentEntry]
    conflicts: int
    problems: Sequence[str]


def build_index(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Build indexes that were left to this job.

    `options` has "list", "check" and "rebuild": see the module's docstring.
    """
    chosen = context.topics(topics)
    context.open_together(chosen)
    for topic in chosen:
        try:
            needed = _needed(context, topic, options)
        except SparklogError as error:
            yield failing_step(topic.name, error)
            continue
        if needed:
            force = bool(options["rebuild"])
            execute = partial(_execute, context, topic, [entry for entry, _ in needed], force=force)
            yield Step(topic=topic.name, rows=_rows(needed), execute=execute)


def _needed(
    context: JobContext, topic: TopicDescription, options: Mapping[str, Any]
) -> list[_Needed]:
    image = context.to_plan(topic)
    asked = "rebuild" if options["rebuild"] else "check" if options["check"] else None
    sizes = _sizes(context.files, topic) if options.get("list") and not asked else None
    needed: list[_Needed] = []
    for _, log in sorted(image.partitions.items()):
        for entry in log.entries():
            if entry.is_shared:
                continue  # a slice has no index: it is so small that readers scan it
            reason = asked or index_problem(entry, sizes)
            if reason is not None:
                needed.append((entry, reason))
    return needed


def _sizes(files: Files, topic: TopicDescription) -> Sizes:
    """Return the sizes of a topic's index files, by one listing for all partitions."""
    directory = f"{topic_directory(topic)}/"
    return {
        stat.path.removeprefix(directory): stat.bytes
        for stat in files.list(topic_directory(topic), recursive=True)
        if stat.path.endswith((*COLUMNS,))
    }


def index_problem(entry: SegmentEntry, sizes: Sizes | None) -> str | None:
    """Return why a segment's indexes must be built; None if they need not.

    `sizes` are those of the existing files, None if they were not listed.
    """
    indexes = (
        (entry.index_path, entry.index_bytes),
        (entry.time_index_path, entry.time_index_bytes),
        (entry.key_index_path, entry.key_index_bytes or 0),
    )
    if any(size is None for _, size in indexes):
        return "not built"
    if sizes is None:
        return None
    for path, size in indexes:
        found = 0 if path is None else sizes.get(path)
        if found is None:
            return "missing"
        if found != size:
            return "other size"
    return None


def _rows(needed: Sequence[_Needed]) -> list[dict[str, Any]]:
    """Return a row of the plan for each partition and reason."""
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for entry, reason in needed:
        new = {"partition": entry.partition, "reason": reason, "segments": 0, "bytes": 0}
        row = rows.setdefault((entry.partition, reason), new)
        row["segments"] += 1
        row["bytes"] += entry.log_bytes
    return list(rows.values())


def _execute(
    context: JobContext, topic: TopicDescription, entries: Sequence[SegmentEntry], *, force: bool
) -> Outcome:
    made = index_segments(context, topic, entries, force=force)
    return Outcome(
        counts={
            "read": len(made.read),
            "built": len(made.landed),
            "bytes": sum(entry.log_bytes for entry in made.read),
            "conflicts": made.conflicts,
        },
        problems=made.problems,
    )


def index_segments(
    context: JobContext,
    topic: TopicDescription,
    entries: Sequence[SegmentEntry],
    *,
    force: bool = False,
) -> IndexesMade:
    """Build the indexes of segments, each in a task, and commit them together.

    `force`: also build indexes that are right. A segment that cannot be read becomes a problem that
    names its partition; the others are built.
    """
    interval_bytes = TopicConfig.parse(topic.configs).index_interval_bytes
    build = partial(
        rebuilt, context.files, context.clock, topic, interval_bytes=interval_bytes, force=force
    )
    made, read, problems, gone = [], [], [], 0
    answers = context.fleet.map(build, entries, f"index {topic.name}")
    for entry, answer in zip(entries, answers, strict=True):
        if not isinstance(answer, SparklogError):
            read.append(entry)
            made += [] if answer is None else [(entry, answer)]
        elif context.are_gone(topic, [entry], answer):
            gone += 1
        else:
            problems.append(f"{topic.name}-{entry.partition}: {answer}")
    landed = commit_indexes(context.catalog, topic, made)
    return IndexesMade(read, landed, gone + len(made) - len(landed), problems)
