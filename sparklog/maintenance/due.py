"""The partitions that are due for compaction, by their configs and the newest image."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

from sparklog.config import TopicConfig
from sparklog.log.compaction import CompactionPlan, CompactionPolicy, plan_compaction
from sparklog.log.names import OFFSET_MAX
from sparklog.metadata.image import PartitionLog
from sparklog.model import SegmentEntry, SegmentKey

RECORD_BYTES: Final = 100
"""The size of a record that is assumed where a row has no record count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePartition:
    """A partition that is to be compacted, with the segments to read."""

    plan: CompactionPlan
    unread: Sequence[SegmentEntry]
    """Segments whose keys must be read, in offset order: clean without index, and dirty."""
    indexed: Sequence[SegmentEntry]
    """Clean segments with a key index."""
    next_offset: int
    """Where the first segment begins that a later round must read; OFFSET_MAX without one."""
    last_producers: Mapping[SegmentKey, frozenset[int]]
    """Of each segment, by its key, the producers that no later one holds."""

    @property
    def records(self) -> int:
        """How many records are read."""
        return sum(map(records_of, self.unread))

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
    *,
    reached: int = 0,
    records_max: int,
) -> DuePartition | None:
    """Return what one round compacts of a partition, None when it is not due.

    `options` are those of the job. Segments below `reached` were read in an earlier round of this
    run: None when one of them is still to be read, for that round was given up, or it was the last
    one and this segment came later. The round reads `records_max` records at most, but a segment at
    least.
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
    is_indexed = partial(_is_indexed, reached=reached, reindex=options["reindex"])
    unread = [*(one for one in plan.clean if not is_indexed(one)), *plan.dirty]
    if unread[0].base_offset < reached:
        return None
    count = _fitting(unread, records_max)
    is_whole = count == len(unread)
    end = plan.end_offset if is_whole else unread[count].base_offset
    return DuePartition(
        plan=plan.cut_at(max(end, log.cleaner_offset)),
        unread=unread[:count],
        indexed=[one for one in plan.clean if is_indexed(one)],
        next_offset=OFFSET_MAX if is_whole else end,
        last_producers=_last_producers(segments),
    )


def records_of(entry: SegmentEntry) -> int:
    """Return how many records a segment holds, or may hold where its row does not say."""
    return entry.log_bytes // RECORD_BYTES if entry.record_count is None else entry.record_count


def _is_indexed(entry: SegmentEntry, *, reached: int, reindex: bool) -> bool:
    """Whether a segment has a key index that counts: `reindex` believes those of this run alone."""
    return entry.key_index_path is not None and (not reindex or entry.base_offset < reached)


def _fitting(segments: Sequence[SegmentEntry], records_max: int) -> int:
    """Return how many of the first segments hold so many records at most; 1 at least."""
    sums = list(accumulate(map(records_of, segments)))
    return max(1, bisect_right(sums, records_max))


def _last_producers(segments: Sequence[SegmentEntry]) -> dict[SegmentKey, frozenset[int]]:
    last: dict[SegmentKey, frozenset[int]] = {}
    later: set[int] = set()
    for entry in reversed(segments):
        mine = frozenset(entry.producer_ids or ())
        last[entry.key] = mine - later
        later |= mine
    return last
