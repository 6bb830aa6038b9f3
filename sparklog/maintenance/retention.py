"""Retention as a job: old segments leave the log in one commit a topic; vacuum unlinks them later.

Every try of the commit chooses the segments again. So segments that were added or removed meanwhile
are taken into account.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.config.topic import TopicConfig
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import SparklogError
from sparklog.log.retention import Expired, Segments, expired_segments
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.metadata.state.edit import Done, PartitionState, TopicEdit
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.model import SegmentKey, TopicDescription


class _Removal(NamedTuple):
    """The segments of one partition that are to be removed."""

    partition: int
    expired: Expired
    gone: pa.Table
    bytes: int

    @property
    def keys(self) -> Iterator[SegmentKey]:
        """The keys of the segments."""
        paths = self.gone.column("log_path").to_pylist()
        positions = pc.fill_null(self.gone.column("log_position"), 0).to_pylist()
        return map(SegmentKey, repeat(self.partition), paths, positions)

    def as_row(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "segments": self.gone.num_rows,
            "bytes": self.bytes,
            **self.expired._asdict(),
        }


def retention(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Remove segments past retention.ms or retention.bytes, and those below the log start offset.

    Also removes committed offsets of groups that were not used for a week, the default of
    offsets.retention.minutes.
    """
    del options
    yield from _expired_offsets(context, topics)
    chosen = context.topics(topics)
    context.open_together(chosen)
    for topic in chosen:
        try:
            removals = _removals(context.to_plan(topic), context.clock.now_ms())
        except SparklogError as error:
            yield failing_step(topic.name, error)
            continue
        if removals:
            rows = [removal.as_row() for removal in removals]
            yield Step(topic=topic.name, rows=rows, execute=partial(_execute, context, topic))


def _expired_offsets(context: JobContext, topics: Sequence[str]) -> Iterator[Step]:
    """Yield the step that removes committed offsets that were not used for a week, if any."""
    if OFFSETS_TOPIC not in (topics or context.catalog.topics()):
        return
    # Imported only if there are groups: loading the kernels takes a while.
    from sparklog.coordinator.group_log import GroupLog

    groups = GroupLog(context.catalog)
    try:
        found = groups.expire(dry_run=True)
    except SparklogError as error:
        yield failing_step(OFFSETS_TOPIC, error)
        return
    rows: list[dict[str, Any]] = [
        {"partition": number, "offsets": count} for number, count in found.removed.items()
    ]
    rows += [{"partition": number, "problem": str(one)} for number, one in found.problems.items()]
    if rows:

        def execute() -> Outcome:
            done = groups.expire()
            problems = [f"{OFFSETS_TOPIC}-{number}: {one}" for number, one in done.problems.items()]
            return Outcome(counts={"offsets": sum(done.removed.values())}, problems=problems)

        yield Step(topic=OFFSETS_TOPIC, rows=rows, execute=execute)


def _execute(context: JobContext, topic: TopicDescription) -> Outcome:
    now_ms = context.clock.now_ms()
    removed: list[_Removal] = []
    why: dict[str, str] = {}

    def plan(image: TopicImage) -> TopicEdit | Done:
        removed[:] = _removals(image, now_ms)
        why["why"] = _why(removed)
        return _edit(removed)

    context.catalog.commit(topic, plan, operation="RETENTION", parameters=why)
    return Outcome(
        counts={
            "segments": sum(removal.gone.num_rows for removal in removed),
            "bytes": sum(removal.bytes for removal in removed),
        }
    )


def _why(removals: Sequence[_Removal]) -> str:
    """Return how many segments each rule removes, as text."""
    rules = {
        "log start offset": sum(one.expired.by_start_offset for one in removals),
        "retention.bytes": sum(one.expired.by_size for one in removals),
        "retention.ms": sum(one.expired.by_time for one in removals),
    }
    return ", ".join(f"{rule}: {count}" for rule, count in rules.items() if count)


def _edit(removals: Sequence[_Removal]) -> TopicEdit | Done:
    if not removals:
        return Done()
    return TopicEdit(
        remove=[key for removal in removals for key in removal.keys],
        partitions={
            removal.partition: PartitionState(log_start_offset=removal.expired.log_start_offset)
            for removal in removals
        },
    )


def _removals(image: TopicImage, now_ms: int) -> list[_Removal]:
    """Return the segments to remove, partition by partition; an empty list for a deleted topic.

    The topic's configs are the image's: a job that began before a change obeys the change.
    """
    if image.deleted_ms is not None:
        return []
    config = TopicConfig.parse(image.description.configs)
    found = (_removal(log, config, now_ms) for _, log in sorted(image.partitions.items()))
    return [removal for removal in found if removal is not None]


def _removal(log: PartitionLog, config: TopicConfig, now_ms: int) -> _Removal | None:
    live = log.live.table
    segments = _segments(live)
    expired = expired_segments(segments, log.log_start_offset, log.log_end_offset, config, now_ms)
    if not expired.total:
        return None
    gone_bytes = int(segments.log_bytes[: expired.total].sum())
    return _Removal(log.partition, expired, live.slice(0, expired.total), gone_bytes)


def _segments(live: pa.Table) -> Segments:
    base_offset, log_bytes, max_timestamp, created_ms = (
        live.column(name).to_numpy()
        for name in ("base_offset", "log_bytes", "max_timestamp", "created_ms")
    )
    newest_ms = np.where(max_timestamp >= 0, max_timestamp, created_ms)
    return Segments(base_offset, log_bytes, newest_ms)
