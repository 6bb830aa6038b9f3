"""A topic's manifest and the names of its files, held together; no file is opened."""

from collections.abc import Sequence
from itertools import pairwise

from sparklog.config import TopicConfig
from sparklog.errors import CorruptMetadataError
from sparklog.log.names import parse_segment_name, uuid7_ms
from sparklog.log.vacuum import Fate, fates
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.image import TopicImage
from sparklog.metadata.tables import PATH_COLUMNS, segment_entries
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files


def segments_of(snapshot: TopicImage, partition: int) -> Sequence[SegmentEntry]:
    """Return the live segments of a partition in offset order, also where they overlap."""
    column = snapshot.live.column("partition").to_numpy()
    start, stop = column.searchsorted([partition, partition + 1])
    return segment_entries(snapshot.live.slice(start, stop - start))


def manifest_problems(topic: TopicDescription, snapshot: TopicImage) -> list[str]:
    """Return what the manifest says that cannot be."""
    problems = [
        f"{topic.name}-{partition}: the topic has no such partition"
        for partition in snapshot.live.column("partition").unique().to_pylist()
        if not 0 <= partition < topic.num_partitions
    ]
    for partition in range(topic.num_partitions):
        name, state = f"{topic.name}-{partition}", snapshot.partition(partition)
        try:
            snapshot.segments(partition)
        except CorruptMetadataError as error:
            problems.append(f"{name}: {error}")
        ends = [entry.next_offset for entry in segments_of(snapshot, partition)]
        for what, offset in (
            ("log start offset", state.log_start_offset),
            ("cleaner offset", state.cleaner_offset),
            ("end of its segments", max(ends, default=0)),
        ):
            if offset > state.log_end_offset:
                problems.append(
                    f"{name}: the {what} {offset} lies behind the log end offset "
                    f"{state.log_end_offset}"
                )
    return problems


def file_findings(
    files: Files, topic: TopicDescription, snapshot: TopicImage, now_ms: int
) -> tuple[list[str], list[str]]:
    """Return problems and notes: files that are gone early; files that no row names, and gaps."""
    config, directory = TopicConfig.parse(topic.configs), f"{topic_directory(topic)}/"
    sizes = {
        stat.path.removeprefix(directory): stat.bytes
        for stat in files.list(directory.rstrip("/"), recursive=True)
    }
    delay_ms = config.delete_delay_ms
    removed = snapshot.removed
    problems = [
        f"{directory}{row[name]}: gone before {delay_ms} ms after its segment was removed"
        for row in removed.select([*PATH_COLUMNS, "removed_ms"]).to_pylist()
        if row["removed_ms"] > now_ms - delay_ms
        for name in PATH_COLUMNS
        if row[name] is not None and row[name] not in sizes
    ]
    named = {
        path
        for rows in (snapshot.live, removed)
        for name in PATH_COLUMNS
        for path in rows.column(name).drop_null().to_pylist()
    }
    strangers = fates(sizes, named, set(), now_ms - config.orphan_retention_ms)
    unnamed = [*strangers[Fate.ORPHAN], *(p for p in strangers[Fate.KEPT] if p not in named)]
    notes = [_orphans(topic, sizes, unnamed, now_ms)] if unnamed else []
    notes += [f"{directory}{path}: no file of a segment" for path in strangers[Fate.UNKNOWN]]
    return problems, notes + _gaps(topic, snapshot)


def _orphans(
    topic: TopicDescription, sizes: dict[str, int], paths: Sequence[str], now_ms: int
) -> str:
    names = (parse_segment_name(path.rpartition("/")[2]) for path in paths)
    oldest_ms = min(uuid7_ms(name.uuid) for name in names if name and name.uuid)
    size = sum(sizes[path] for path in paths)
    return (
        f"{topic.name}: no row names {len(paths)} files of {size} bytes, the oldest made "
        f"{max(now_ms - oldest_ms, 0) // 1000} s ago, such as {paths[0]}"
    )


def _gaps(topic: TopicDescription, snapshot: TopicImage) -> list[str]:
    """Offsets above the log start that no segment covers, where compaction is not the reason."""
    if TopicConfig.parse(topic.configs).is_compacted:
        return []
    notes = []
    for partition in range(topic.num_partitions):
        state = snapshot.partition(partition)
        spans = [(e.base_offset, e.next_offset) for e in segments_of(snapshot, partition)]
        start, end = state.log_start_offset, state.log_end_offset
        covered = [(0, start), *(span for span in spans if span[1] > start), (end, end)]
        notes += [
            f"{topic.name}-{partition}: offsets [{one[1]}, {other[0]}) have no segment"
            for one, other in pairwise(covered)
            if one[1] < other[0]
        ]
    return notes
