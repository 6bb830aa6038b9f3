"""Merging as a job: small neighbours become one sealed segment, copied batch by batch.

    plan (log.merge) -> each group is a task: read, verify, rewrite base offsets, index, sync
                     -> each step is a commit: it replaces the groups by their new segments

Only the first eight bytes of a batch change; its checksum does not cover them. Nothing is decoded.
If segments of a group have changed since it was planned, the commit leaves the group out: vacuum
unlinks the group's new file, and the next run plans it again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from sparklog.config import TopicConfig
from sparklog.errors import SparklogError
from sparklog.log.merge import Group, MergeLimits, plan_merge
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.maintenance.merging.merged import INDEX_FIELDS, MergeWork, merged, same_log
from sparklog.maintenance.merging.spans import Spans
from sparklog.maintenance.parts import parts_of
from sparklog.metadata.state.edit import Done, TopicEdit
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.metadata.state.segment_tables import SEGMENT_SCHEMA, segment_entries, segments_table
from sparklog.model import SegmentEntry, TopicDescription

STEP_BYTES: Final = 64 * 1024**3
"""The most log bytes of a step, unless one group has more: a run that is killed loses at most the
work of one step."""
_COMPARED: Final = [name for name in SEGMENT_SCHEMA.names if name not in INDEX_FIELDS]


def merge_segments(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Join small segments of each partition; `log.merge` chooses them.

    `options["seal"]`: join and rewrite segments until all are sealed.
    """
    chosen = context.topics(topics)
    context.open_together(chosen)
    for topic in chosen:
        try:
            groups = _groups(context, topic, seal=options["seal"])
        except SparklogError as error:
            yield failing_step(topic.name, error)
            continue
        for part in parts_of(groups, STEP_BYTES, _log_bytes):
            yield Step(
                topic=topic.name,
                rows=[_row(group) for group in part],
                execute=partial(merge_groups, context, topic, part),
            )


def _groups(context: JobContext, topic: TopicDescription, *, seal: bool) -> list[Group]:
    image = context.to_plan(topic)
    config = TopicConfig.parse(topic.configs)
    limits = MergeLimits.of(config)
    before_ms = context.clock.now_ms() - config.shared_segment_max_age_ms
    groups: list[Group] = []
    for _, log in sorted(image.partitions.items()):
        entries = log.entries()
        # The newest segment of a compacted topic stays dirty, so it must not grow: it is not joined
        # with others.
        cut = len(entries) - 1 if config.is_compacted and not seal else len(entries)
        for part in (entries[:cut], entries[cut:]):
            groups += plan_merge(
                part,
                limits,
                cleaner_offset=log.cleaner_offset,
                log_start_offset=log.log_start_offset,
                slices_before_ms=before_ms,
                seal=seal,
            )
    return groups


def _row(group: Group) -> dict[str, Any]:
    return {
        "partition": group[0].partition,
        "base_offset": group[0].base_offset,
        "next_offset": group[-1].next_offset,
        "segments": len(group),
        "bytes": _log_bytes(group),
    }


def _log_bytes(group: Group) -> int:
    return sum(entry.log_bytes for entry in group)


@dataclass(frozen=True, slots=True)
class _Merge:
    """A group, and the segment that it has become."""

    group: Group
    segment: SegmentEntry
    rows: pa.Table
    """The rows of the group, with the columns that `_compared` selects."""


def merge_groups(
    context: JobContext,
    topic: TopicDescription,
    groups: Sequence[Group],
    spans: Spans | None = None,
) -> Outcome:
    """Join each group; commit the groups that have not changed since they were planned.

    `spans` read slices of several calls together, in this process: do not give it with Spark's
    fleet.
    """
    config = TopicConfig.parse(topic.configs)
    works = [
        MergeWork(
            files=context.files,
            clock=context.clock,
            topic=topic,
            group=group,
            index_interval_bytes=config.index_interval_bytes,
            spans=spans,
        )
        for group in groups
    ]
    answers = context.fleet.map(merged, works, f"merge {topic.name}")
    made, problems = [], []
    for group, answer in zip(groups, answers, strict=True):
        if not isinstance(answer, SparklogError):
            made.append(_Merge(group, answer, _compared(segments_table(group))))
        elif not context.are_gone(topic, group, answer):
            problems.append(f"{topic.name}-{group[0].partition}: {answer}")
    landed = _commit(context, topic, made)
    return Outcome(
        counts={
            "segments": sum(len(merge.group) for merge in landed),
            "into": len(landed),
            "bytes": sum(merge.segment.log_bytes for merge in landed),
            "conflicts": len(groups) - len(problems) - len(landed),
        },
        problems=problems,
    )


def _commit(
    context: JobContext, topic: TopicDescription, made: Sequence[_Merge]
) -> Sequence[_Merge]:
    """Replace the groups that have not changed, in one commit; return them."""
    landed: list[_Merge] = []

    def plan(image: TopicImage) -> TopicEdit | Done:
        landed[:] = [
            merge for merge in made if _is_current(image.partition(merge.segment.partition), merge)
        ]
        if not landed:
            return Done()
        return TopicEdit(
            segments=[merge.segment for merge in landed],
            remove=[entry.key for merge in landed for entry in merge.group],
        )

    context.catalog.commit(topic, plan, operation="MERGE SEGMENTS")
    return landed


def _is_current(log: PartitionLog, merge: _Merge) -> bool:
    """Whether the merged segments are still the only ones at their offsets.

    Also False if the cleaner offset now lies between them.
    """
    group = merge.group
    start, end = group[0].base_offset, group[-1].next_offset
    slots = log.segments.range(start, end)
    if len(slots) != len(group) or start < log.cleaner_offset < end:
        return False
    # Other commits wait for this plan, so entries are made only if the rows differ.
    live = log.live.table.slice(slots.start, len(slots))
    return _compared(live).equals(merge.rows) or all(
        same_log(entry, planned)
        for entry, planned in zip(segment_entries(live), group, strict=True)
    )


def _compared(rows: pa.Table) -> pa.Table:
    """Return the columns that describe the log, without those of the indexes (`same_log`)."""
    return rows.select(_COMPARED)
