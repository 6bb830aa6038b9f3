"""Which segments of a partition are compacted, and which of them together (LogCleanerManager).

    | clean: each key once |  dirty: to be compacted  | uncleanable | newest |
    log start              first dirty                end                    log end

    first dirty   the partition's cleaner offset, or its log start where that is above
    end           base of the newest segment, or of the first that holds a record younger than
                  min.compaction.lag.ms
    due           dirty bytes / (clean + dirty bytes) > min.cleanable.dirty.ratio, or a dirty record
                  older than max.compaction.lag.ms

What is compacted is rewritten, several segments into one as Cleaner.groupSegmentsBySize does. Kafka
rewrites the clean part too; here a clean segment that holds no superseded record stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparklog.model import MAX_RELATIVE_OFFSET, SegmentEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """The topic configs that say when a partition is compacted."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The segments of one partition that a compaction looks at, in offset order."""

    partition: int
    end_offset: int
    """What the cleaner offset becomes: the base of the first segment that is left alone."""
    clean: Sequence[SegmentEntry]
    dirty: Sequence[SegmentEntry]

    @property
    def clean_bytes(self) -> int:
        """Bytes below the first dirty offset."""
        return sum(entry.log_bytes for entry in self.clean)

    @property
    def dirty_bytes(self) -> int:
        """Bytes that no compaction has seen yet."""
        return sum(entry.log_bytes for entry in self.dirty)

    @property
    def dirty_ratio(self) -> float:
        """The share of dirty bytes (LogToClean.cleanableRatio)."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)


def plan_compaction(
    segments: Sequence[SegmentEntry],
    first_dirty: int,
    policy: CompactionPolicy,
    now_ms: int,
    *,
    force: bool = False,
) -> CompactionPlan | None:
    """Return what is to be compacted of a partition, None when nothing is due.

    `segments` are its live ones in offset order, without those below the log start. `force` asks
    for it whatever the ratio is.
    """
    candidates = segments[:-1]
    dirty: list[SegmentEntry] = []
    for entry in candidates:
        if entry.next_offset <= first_dirty:
            continue
        if policy.min_compaction_lag_ms > 0 and _is_young(entry, policy, now_ms):
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
    is_due = plan.dirty_ratio > policy.min_cleanable_dirty_ratio or _is_overdue(
        plan, policy, now_ms
    )
    return plan if force or is_due else None


def _is_young(entry: SegmentEntry, policy: CompactionPolicy, now_ms: int) -> bool:
    newest = entry.max_timestamp if entry.max_timestamp >= 0 else entry.created_ms
    return newest > now_ms - policy.min_compaction_lag_ms


def _is_overdue(plan: CompactionPlan, policy: CompactionPolicy, now_ms: int) -> bool:
    oldest = [entry.min_timestamp for entry in plan.dirty if (entry.min_timestamp or 0) > 0]
    return any(one < now_ms - policy.max_compaction_lag_ms for one in oldest if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """What one segment may hold (Cleaner.groupSegmentsBySize)."""

    segment_bytes: int
    segment_index_bytes: int


@dataclass(slots=True)
class _Group:
    """Segments that become one: their bytes and index bytes so far."""

    limits: GroupLimits
    entries: list[SegmentEntry] = field(default_factory=list)

    def takes(self, first: SegmentEntry, last: SegmentEntry, other: SegmentEntry) -> bool:
        """Whether `other` fits too, the group then going from `first` to `last`."""
        if not self.entries:
            return True
        entries = [*self.entries, other]
        index_max = self.limits.segment_index_bytes
        return (
            sum(entry.log_bytes for entry in entries) <= self.limits.segment_bytes
            and sum(entry.index_bytes or 0 for entry in entries) <= index_max
            and sum(entry.time_index_bytes or 0 for entry in entries) <= index_max
            and last.next_offset - 1 - first.base_offset <= MAX_RELATIVE_OFFSET
        )

    @property
    def bytes(self) -> int:
        """Bytes of the group's segments."""
        return sum(entry.log_bytes for entry in self.entries)


def plan_groups(
    segments: Sequence[SegmentEntry], touched: frozenset[str], limits: GroupLimits
) -> list[list[SegmentEntry]]:
    """Return the groups of neighbours that are rewritten, each into one segment.

    `touched` are the log_paths of those that must be: the others are left alone, except that one
    beside a group joins it when it is no larger than the group. So segments that stay cannot pile
    up small, and a byte is rewritten in vain about as often as its segment doubles in size.
    """
    groups: list[_Group] = []
    alone: list[SegmentEntry] = []
    is_open = False
    for entry in segments:
        if entry.log_path not in touched:
            is_open = is_open and _joined(groups[-1], entry)
            if not is_open:
                alone.append(entry)
            continue
        if not (is_open and groups[-1].takes(groups[-1].entries[0], entry, entry)):
            groups.append(_Group(limits))
            _take_in_front(groups[-1], entry, alone)
        groups[-1].entries.append(entry)
        alone, is_open = [], True
    return [group.entries for group in groups]


def _joined(group: _Group, entry: SegmentEntry) -> bool:
    """Let an untouched segment behind a group join it, if it may."""
    may = entry.log_bytes <= group.bytes and group.takes(group.entries[0], entry, entry)
    if may:
        group.entries.append(entry)
    return may


def _take_in_front(group: _Group, first: SegmentEntry, alone: Sequence[SegmentEntry]) -> None:
    """Let untouched segments in front of a group's first touched one join it, if they may."""
    before: list[SegmentEntry] = []
    for entry in reversed(alone):
        together = _Group(group.limits, [*before, first])
        if entry.log_bytes > together.bytes or not together.takes(entry, first, entry):
            break
        before.insert(0, entry)
    group.entries.extend(before)
