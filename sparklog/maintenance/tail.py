"""The ends of logs, kept tidy by the gateways: slices of shared segments become segments.

A group commit leaves a slice, and a row, in every partition that it touched. A tail is due when one
of these holds:

    more slices than SLICES_MAX                        so that the rows stay few
    bytes >= sparklog.shared.segment.max.bytes         a writer would have made a segment of them
    the oldest > sparklog.shared.segment.max.age.ms    the rule of `merge_segments`

The job `merge_segments` does the same for whole logs, and joins the resulting segments again.
Segments that were merged here are joined here too, but only many at a time (GROWTH).
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from typing import Final

from sparklog.config import TopicConfig
from sparklog.log.merge import Group, MergeLimits, plan_merge
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.merge_segments import merge_groups
from sparklog.metadata.image import Image, PartitionLog
from sparklog.model import SegmentEntry, TopicDescription

SLICES_MAX: Final = 32
"""A tail with more slices than this is merged."""
ROWS_MAX: Final = 256
"""How many rows at the end of a log are looked at."""
GROWTH: Final = 8
"""A merge makes a segment at least so many times as large as any that it takes in: the bytes of a
fast producer are copied two or three times while it produces, not ten times."""
STEP_SLICES: Final = 128
"""About so many slices are merged in one commit: produces wait until it has landed."""
LONG_SLICES_MAX: Final = 128
"""Where tails are merged in turn, one with more slices than this does not wait for its turn."""
LONG_ROWS_MAX: Final = 1024
"""There so many rows at the end of a log are looked at."""


def merge_tails(
    context: JobContext, image: Image, topics: Iterable[TopicDescription]
) -> Iterator[Outcome]:
    """Merge the tails of topics that are due, a few in a commit; yield the outcome of each.

    `image` may be of any version. A topic that it has not opened is left out. A tail that another
    process changes meanwhile is left to the next call.
    """
    now_ms = context.clock.now_ms()
    for topic in topics:
        opened = image.topic(topic.topic_id)
        if opened is None or not opened.is_open:
            continue
        config = TopicConfig.parse(topic.configs)
        groups = [
            group
            for log in opened.partitions.values()
            for group in _due(log, config, now_ms, ROWS_MAX)
        ]
        for step in _steps(groups):
            yield merge_groups(context, topic, step)


def _steps(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Yield the groups of each commit: about STEP_SLICES slices, or one group that has more."""
    step: list[Group] = []
    for group in groups:
        if step and sum(map(len, step)) + len(group) > STEP_SLICES:
            yield step
            step = []
        step.append(group)
    if step:
        yield step


def merge_tails_in_turn(
    context: JobContext, image: Image, topic: TopicDescription, turn: Container[int]
) -> Iterator[Outcome]:
    """Merge the tails of the partitions in `turn` that are due, in one commit a partition.

    A tail of more than LONG_SLICES_MAX slices does not wait for its turn. For a topic whose tails
    all grow fast and at the same time. Otherwise as `merge_tails`.
    """
    opened = image.topic(topic.topic_id)
    if opened is None or not opened.is_open:
        return
    config, now_ms = TopicConfig.parse(topic.configs), context.clock.now_ms()
    for number, log in sorted(opened.partitions.items()):
        if number in turn or log.live.count_slices(LONG_ROWS_MAX) > LONG_SLICES_MAX:
            groups = _due(log, config, now_ms, LONG_ROWS_MAX)
            if groups:
                yield merge_groups(context, topic, groups)


def _due(log: PartitionLog, config: TopicConfig, now_ms: int, rows_max: int) -> list[Group]:
    """Return the groups of a partition's tail that are to be merged; none while it is not due."""
    if not log.live.count_slices(rows_max):
        return []
    tail = log.live.last(rows_max)
    slices = [entry for entry in tail if entry.is_shared]
    before_ms = now_ms - config.shared_segment_max_age_ms
    if not (
        len(slices) > SLICES_MAX
        or sum(entry.log_bytes for entry in slices) >= config.shared_segment_max_bytes
        or slices[0].created_ms < before_ms
    ):
        return []
    return plan_merge(
        _mergeable(tail, config),
        replace(MergeLimits.of(config), growth=GROWTH),
        cleaner_offset=log.cleaner_offset,
        log_start_offset=log.log_start_offset,
        slices_before_ms=before_ms,
    )


def _mergeable(tail: list[SegmentEntry], config: TopicConfig) -> list[SegmentEntry]:
    """Leave out the newest segment of a compacted topic: it must stay dirty (`merge_segments`)."""
    return tail[:-1] if config.is_compacted else tail
