"""Which segments of a partition are compacted, and which of them together (LogCleanerManager).

    | clean: each key once |  dirty: to be compacted  | uncleanable | newest |
    log start              first dirty                end                    log end

    first dirty   the partition's cleaner offset, or its log start if that is above
    end           base of the first segment that stays: the newest, one with a record younger than
                  min.compaction.lag.ms, or one that reaches beyond the last stable offset
    due           dirty bytes / (clean + dirty bytes) > min.cleanable.dirty.ratio, or a dirty record
                  older than max.compaction.lag.ms

Segments are rewritten in groups, as Cleaner.groupSegmentsBySize makes them. Kafka rewrites the
clean part too; here a clean segment without a superseded record stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparklog.config import TopicConfig
from sparklog.log.names import OFFSET_MAX
from sparklog.model import MAX_RELATIVE_OFFSET, SegmentEntry, SegmentKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The segments of one partition that a compaction reads, in offset order."""

    partition: int
    end_offset: int
    """The next cleaner offset: the base of the first segment that is not compacted."""
    clean: Sequence[SegmentEntry]
    dirty: Sequence[SegmentEntry]

    @property
    def clean_bytes(self) -> int:
        """Bytes of the segments below the first dirty offset."""
        return sum(entry.log_bytes for entry in self.clean)

    @property
    def dirty_bytes(self) -> int:
        """Bytes of the segments that no compaction has read yet."""
        return sum(entry.log_bytes for entry in self.dirty)

    @property
    def dirty_ratio(self) -> float:
        """The share of dirty bytes, 0 to 1 (LogToClean.cleanableRatio)."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    def cut_at(self, offset: int) -> "CompactionPlan":
        """Return the plan without the dirty segments from `offset`, the base of a segment, on."""
        dirty = [entry for entry in self.dirty if entry.base_offset < offset]
        return replace(self, end_offset=min(offset, self.end_offset), dirty=dirty)


def plan_compaction(
    segments: Sequence[SegmentEntry],
    first_dirty: int,
    config: TopicConfig,
    now_ms: int,
    *,
    last_stable_offset: int = OFFSET_MAX,
    force: bool = False,
) -> CompactionPlan | None:
    """Return the plan of a partition's compaction; None if none is due.

    `segments` are its live segments in offset order, without those below the log start. Records
    from `last_stable_offset` on may still be aborted, so their segments stay. With `force` a
    compaction is due whatever the dirty ratio is, if there is a dirty segment.
    """
    candidates = segments[:-1]
    dirty: list[SegmentEntry] = []
    for entry in candidates:
        if entry.next_offset <= first_dirty:
            continue
        if entry.next_offset > last_stable_offset:
            break
        if config.min_compaction_lag_ms > 0 and _is_young(entry, config, now_ms):
            break
        dirty.append(entry)
    if not dirty:
        return None
    clean = [entry for entry in candidates if entry.next_offset <= first_dirty]
    following = segments[len(clean) + len(dirty)]
    plan = CompactionPlan(
        partition=dirty[0].partition,
        end_offset=following.base_offset,
        clean=clean,
        dirty=dirty,
    )
    is_due = plan.dirty_ratio > config.min_cleanable_dirty_ratio or _is_overdue(
        plan, config, now_ms
    )
    return plan if force or is_due else None


def _is_young(entry: SegmentEntry, config: TopicConfig, now_ms: int) -> bool:
    newest = entry.max_timestamp if entry.max_timestamp >= 0 else entry.created_ms
    return newest > now_ms - config.min_compaction_lag_ms


def _is_overdue(plan: CompactionPlan, config: TopicConfig, now_ms: int) -> bool:
    horizon_ms = now_ms - config.max_compaction_lag_ms
    return any(0 < _earliest_ms(entry) < horizon_ms for entry in plan.dirty)


def _earliest_ms(entry: SegmentEntry) -> int:
    """Return the smallest timestamp; -1 if there is none.

    If only some records have one, or it is not known, return the time the segment was made.
    """
    if entry.max_timestamp > 0 >= (entry.min_timestamp or 0):
        return entry.created_ms
    return -1 if entry.min_timestamp is None else entry.min_timestamp


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbours that become one segment, and the sums of their sizes."""

    entries: tuple[SegmentEntry, ...] = ()
    bytes: int = 0
    index_bytes: int = 0
    time_index_bytes: int = 0

    def with_entry(self, entry: SegmentEntry, *, in_front: bool = False) -> "_Group":
        """Return the group with `entry` added."""
        return _Group(
            (entry, *self.entries) if in_front else (*self.entries, entry),
            self.bytes + entry.log_bytes,
            self.index_bytes + (entry.index_bytes or 0),
            self.time_index_bytes + (entry.time_index_bytes or 0),
        )

    def fits(self, config: TopicConfig) -> bool:
        """Whether the group may become one segment; a single segment always may."""
        index_bytes = max(self.index_bytes, self.time_index_bytes)
        span = self.entries[-1].next_offset - 1 - self.entries[0].base_offset
        return len(self.entries) == 1 or (
            self.bytes <= config.segment_bytes
            and index_bytes <= config.segment_index_bytes
            and span <= MAX_RELATIVE_OFFSET
        )


def plan_groups(
    segments: Sequence[SegmentEntry], touched: frozenset[SegmentKey], config: TopicConfig
) -> list[tuple[SegmentEntry, ...]]:
    """Return the groups of neighbours that are rewritten, each into one segment.

    `touched` are the keys of the segments that must be rewritten. Of the others only a neighbour
    that is no larger than its group is rewritten with it. So small segments do not accumulate, and
    a byte is copied about once for each doubling of its segment.
    """
    groups: list[_Group] = []
    alone: list[SegmentEntry] = []
    is_open = False
    for entry in segments:
        is_touched = entry.key in touched
        may_join = is_open and (is_touched or entry.log_bytes <= groups[-1].bytes)
        if may_join and groups[-1].with_entry(entry).fits(config):
            groups[-1] = groups[-1].with_entry(entry)
        elif is_touched:
            groups.append(_with_those_in_front(_Group().with_entry(entry), alone, config))
            alone, is_open = [], True
        else:
            alone.append(entry)
            is_open = False
    return [group.entries for group in groups]


def _with_those_in_front(
    group: _Group, alone: Sequence[SegmentEntry], config: TopicConfig
) -> _Group:
    """Return the group with the untouched segments just before it that may join it."""
    for entry in reversed(alone):
        grown = group.with_entry(entry, in_front=True)
        if entry.log_bytes > group.bytes or not grown.fits(config):
            break
        group = grown
    return group
