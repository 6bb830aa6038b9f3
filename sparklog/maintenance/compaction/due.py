"""Decides whether a partition is due for compaction, and which of its segments a round reads."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

from sparklog.config import TopicConfig
from sparklog.log.compaction import CompactionPlan, plan_compaction
from sparklog.log.names import OFFSET_MAX
from sparklog.metadata.state.image import PartitionLog
from sparklog.model import SegmentEntry, SegmentKey

RECORD_BYTES: Final = 100
"""The assumed size of a record if a row has no record count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePartition:
    """A partition that a round compacts, with the segments to read."""

    plan: CompactionPlan
    unread: Sequence[SegmentEntry]
    """Segments whose keys must be read, in offset order: clean without key index, and dirty."""
    indexed: Sequence[SegmentEntry]
    """Clean segments with a key index."""
    next_offset: int
    """Base offset of the first segment that a later round must read; OFFSET_MAX if none must."""
    last_producers: Mapping[SegmentKey, frozenset[int]]
    """By segment key: the ids of the producers whose last batches are in this segment."""

    @property
    def records(self) -> int:
        """How many records the round reads."""
        return sum(map(records_of, self.unread))

    def as_row(self) -> dict[str, Any]:
        """Return the partition as a row of the job's plan."""
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
    """Return the part of a partition that one round compacts; None if the partition is not due.

    `options` are those of the job. Earlier rounds of this run have read the segments below
    `reached`. If one of these still has to be read, its round has failed, or the segment was added
    later: the result is None. The round reads at most `records_max` records, but at least one
    segment.
    """
    segments = log.entries(log.log_start_offset)
    plan = plan_compaction(
        segments,
        log.cleaner_offset,
        config,
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
    """Return how many records a segment has; an estimate if its row has no record count."""
    return entry.log_bytes // RECORD_BYTES if entry.record_count is None else entry.record_count


def _is_indexed(entry: SegmentEntry, *, reached: int, reindex: bool) -> bool:
    """Whether a segment has a key index to use; with `reindex`, only one that this run wrote."""
    return entry.key_index_path is not None and (not reindex or entry.base_offset < reached)


def _fitting(segments: Sequence[SegmentEntry], records_max: int) -> int:
    """Return how many of the first segments have at most `records_max` records; at least 1."""
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
