"""Which partitions compaction is due for, as their configs and the newest image have it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparklog.config import TopicConfig
from sparklog.log.compaction import CompactionPlan, CompactionPolicy, plan_compaction
from sparklog.log_reader.isolation import AbortedSpan, aborted_spans
from sparklog.metadata.image import PartitionLog
from sparklog.model import SegmentEntry, SegmentKey


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePartition:
    """A partition that is to be compacted, and what of it."""

    plan: CompactionPlan
    aborted: Sequence[AbortedSpan]
    last_producers: Mapping[SegmentKey, frozenset[int]]
    """Of each segment, by its key, the producers that no later one holds."""
    reindex: bool
    """Whether the key indexes there are count for nothing."""

    @property
    def unindexed(self) -> list[SegmentEntry]:
        """Segments whose keys must be read, in offset order: clean without index, and dirty."""
        indexed = {entry.key for entry in self.indexed}
        clean = (entry for entry in self.plan.clean if entry.key not in indexed)
        return [*clean, *self.plan.dirty]

    @property
    def indexed(self) -> list[SegmentEntry]:
        """Clean segments with a key index."""
        clean = () if self.reindex else self.plan.clean
        return [entry for entry in clean if entry.key_index_path is not None]

    def as_row(self) -> dict[str, Any]:
        """Return it as a row of the job's plan."""
        plan = self.plan
        return {
            "partition": plan.partition,
            "end_offset": plan.end_offset,
            "dirty_segments": len(plan.dirty),
            "dirty_bytes": plan.dirty_bytes,
            "clean_segments": len(plan.clean),
            "clean_bytes": plan.clean_bytes,
            "dirty_ratio": round(plan.dirty_ratio, 3),
        }


def due_partition(
    log: PartitionLog,
    config: TopicConfig,
    now_ms: int,
    options: Mapping[str, Any],
) -> DuePartition | None:
    """Return what is to be compacted of a partition, None when it is not due.

    `options` are those of the job.
    """
    segments = log.entries(log.log_start_offset)
    policy = CompactionPolicy(
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )
    plan = plan_compaction(
        segments,
        log.cleaner_offset,
        policy,
        now_ms,
        last_stable_offset=log.last_stable_offset,
        force=options["force"],
    )
    if plan is None:
        return None
    return DuePartition(
        plan=plan,
        aborted=aborted_spans(segments),
        last_producers=_last_producers(segments),
        reindex=options["reindex"],
    )


def _last_producers(segments: Sequence[SegmentEntry]) -> dict[SegmentKey, frozenset[int]]:
    last: dict[SegmentKey, frozenset[int]] = {}
    later: set[int] = set()
    for entry in reversed(segments):
        mine = frozenset(entry.producer_ids or ())
        last[entry.key] = mine - later
        later |= mine
    return last
