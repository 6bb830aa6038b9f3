"""Compares a topic's image with the names of its files; no file is opened."""

from collections.abc import Sequence
from itertools import pairwise

from sparklog.clock import age_s
from sparklog.config import TopicConfig
from sparklog.errors import CorruptMetadataError
from sparklog.log.names import born_ms
from sparklog.log.vacuum import Fate, fates
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.check import paths_of
from sparklog.metadata.state.image import TopicImage
from sparklog.model import TopicDescription
from sparklog.storage.files import Files
from sparklog.table.schema import TABLE


def image_problems(image: TopicImage) -> list[str]:
    """Return the contradictions in the image of each partition, one line for each."""
    problems = []
    for partition, log in sorted(image.partitions.items()):
        if not 0 <= partition < image.description.num_partitions:
            problems.append(f"{log.name}: the topic has no such partition")
            continue
        try:
            _ = log.segments
        except CorruptMetadataError as error:
            problems.append(f"{log.name}: {error}")
        ends = [entry.next_offset for entry in log.live.entries()]
        for what, offset in (
            ("log start offset", log.log_start_offset),
            ("cleaner offset", log.cleaner_offset),
            ("end of its segments", max(ends, default=0)),
        ):
            if offset > log.log_end_offset:
                problems.append(
                    f"{log.name}: the {what} {offset} lies behind the log end offset "
                    f"{log.log_end_offset}"
                )
    return problems


def file_findings(
    files: Files, topic: TopicDescription, image: TopicImage, now_ms: int
) -> tuple[list[str], list[str]]:
    """Return problems and notes. Problems: files that were deleted too early.

    Notes: files that no row names, and gaps of offsets.
    """
    config, directory = TopicConfig.parse(topic.configs), f"{topic_directory(topic)}/"
    sizes = {
        stat.path.removeprefix(directory): stat.bytes
        for stat in files.list(directory.rstrip("/"), recursive=True)
    }
    delay_ms = config.delete_delay_ms
    problems = [
        f"{directory}{path}: gone before {delay_ms} ms after its segment was removed"
        for entry in image.removed
        if (entry.removed_ms or 0) > now_ms - delay_ms
        for path in paths_of(entry)
        if path not in sizes
    ]
    named = {path for entry in image.removed for path in paths_of(entry)}
    for log in image.partitions.values():
        named.update(path for entry in log.live.entries() for path in paths_of(entry))
    strangers = fates(sizes, named, set(), now_ms - config.orphan_retention_ms)
    unnamed = [*strangers[Fate.ORPHAN], *(p for p in strangers[Fate.KEPT] if p not in named)]
    notes = [_orphans(topic, sizes, unnamed, now_ms)] if unnamed else []
    notes += [
        f"{directory}{path}: no file of a segment"
        for path in strangers[Fate.UNKNOWN]
        if not path.startswith(f"{TABLE}/")
    ]
    return problems, notes + _gaps(topic, image)


def _orphans(
    topic: TopicDescription, sizes: dict[str, int], paths: Sequence[str], now_ms: int
) -> str:
    oldest_ms = min(born_ms(path) or 0 for path in paths)
    size = sum(sizes[path] for path in paths)
    return (
        f"{topic.name}: no row names {len(paths)} files of {size} bytes, the oldest made "
        f"{age_s(oldest_ms, now_ms)} s ago, such as {paths[0]}"
    )


def _gaps(topic: TopicDescription, image: TopicImage) -> list[str]:
    """Return a line for each range above the log start without a segment; [] if compacted."""
    if TopicConfig.parse(topic.configs).is_compacted:
        return []
    notes = []
    for _, log in sorted(image.partitions.items()):
        spans = [(entry.base_offset, entry.next_offset) for entry in log.live.entries()]
        start, end = log.log_start_offset, log.log_end_offset
        covered = [(0, start), *(span for span in spans if span[1] > start), (end, end)]
        notes += [
            f"{log.name}: offsets [{one[1]}, {other[0]}) have no segment"
            for one, other in pairwise(covered)
            if one[1] < other[0]
        ]
    return notes
