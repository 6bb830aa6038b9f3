"""Which segments of a partition to join: consecutive ones, none of them again and again.

    limits      bytes <= segment.bytes; span of timestamps <= segment.ms; entries of each index
                within segment.index.bytes; span of offsets <= 2^31 - 1
    alone       a slice of a shared segment that is old enough
    never       across the cleaner offset; a segment with a key index and one without; a segment
                with a transaction index; one that lies wholly below the log start
    packing     from the oldest on, a group takes its next neighbour while the limits allow it

    full group  its next neighbour does not fit: joined, whatever the sizes
    open group  it may still grow: joined where the largest segment is at most half of the whole, or
                the whole is small; else the largest is left out, and the same rule is asked of the
                segments before it and of those behind it

So a byte is rewritten at most log2(segment.bytes / small) times while its group is open, for its
segment at least doubles each time, and once when the group is full: then neither neighbour fits any
more. A small group costs at most `small_bytes` a run. Two neighbouring full groups hold more than a
limit together; the open end of a log that grew there has about log2 as many segments.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sparklog.config import TopicConfig
from sparklog.log import time_index
from sparklog.model import MAX_RELATIVE_OFFSET, SegmentEntry
from sparklog.record import layout

Group = tuple[SegmentEntry, ...]
"""Segments of one partition, in the order of their offsets."""

SMALL_BYTES: Final = 1024 * 1024
"""Kafka's least segment.bytes: to open such a segment costs more than to copy it."""

_LEAST_BATCH_BYTES: Final = layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V0


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """What one segment may hold: a topic's settings under Kafka's names.

    `segment_ms` is TopicConfig.max_segment_ms.
    """

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    small_bytes: int = SMALL_BYTES
    """Up to here an open group is joined whatever the sizes."""

    @classmethod
    def of(cls, config: TopicConfig) -> "MergeLimits":
        """Return a topic's."""
        return cls(
            segment_bytes=config.segment_bytes,
            segment_ms=config.max_segment_ms,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
        )


def plan_merge(
    entries: Iterable[SegmentEntry],
    limits: MergeLimits,
    *,
    cleaner_offset: int = 0,
    log_start_offset: int = 0,
    slices_before_ms: int = 0,
    seal: bool = False,
) -> list[Group]:
    """Return the groups of live segments, two or more each, that are to become one segment.

    A slice of a shared segment that was made before `slices_before_ms` is a group, even alone.

    `entries` are one partition's, in the order of their offsets; gaps between them do not matter.
    With `seal` open groups are taken for full, and a segment alone is a group unless it is sealed.
    """
    live = (entry for entry in entries if entry.next_offset > log_start_offset)
    groups: list[Group] = []
    for run in _runs(live, cleaner_offset):
        packed = _packed(run, limits)
        if seal:
            groups += [group for group in packed if len(group) > 1 or group[0].shift]
            continue
        *full, tail = packed
        chosen = [group for group in full if len(group) > 1] + _worthwhile(tail, limits)
        groups += chosen + _due_slices(run, chosen, slices_before_ms)
    return sorted(groups, key=lambda group: group[0].base_offset)


def _due_slices(
    run: Sequence[SegmentEntry], chosen: Sequence[Group], before_ms: int
) -> list[Group]:
    """Return the old slices of shared segments that no group takes in, each alone."""
    taken = {entry.key for group in chosen for entry in group}
    return [
        (entry,)
        for entry in run
        if entry.is_shared and entry.created_ms < before_ms and entry.key not in taken
    ]


def _runs(entries: Iterable[SegmentEntry], cleaner_offset: int) -> Iterator[list[SegmentEntry]]:
    """Neighbours between which nothing but the limits decides; none is empty."""
    run: list[SegmentEntry] = []
    for entry in entries:
        is_left_out = entry.txn_index_path is not None
        if run and (is_left_out or _are_apart(run[-1], entry, cleaner_offset)):
            yield run
            run = []
        if not is_left_out:
            run.append(entry)
    if run:
        yield run


def _are_apart(one: SegmentEntry, other: SegmentEntry, cleaner_offset: int) -> bool:
    crosses = one.base_offset < cleaner_offset <= other.base_offset
    return crosses or (one.key_index_path is None) != (other.key_index_path is None)


def _packed(run: Sequence[SegmentEntry], limits: MergeLimits) -> list[Group]:
    """The run in groups that keep the limits, each as long as they allow; all but the last full."""
    groups, weight = [[run[0]]], _Weight.of(run[0])
    for entry in run[1:]:
        alone = _Weight.of(entry)
        together = weight.plus(alone)
        if together.fits(limits):
            groups[-1].append(entry)
            weight = together
        else:
            groups.append([entry])
            weight = alone
    return [tuple(group) for group in groups]


def _worthwhile(group: Group, limits: MergeLimits) -> list[Group]:
    """The parts of an open group that are small, or whose largest segment is at most half."""
    if len(group) < 2:
        return []
    largest = max(range(len(group)), key=lambda slot: group[slot].log_bytes)
    whole = sum(entry.log_bytes for entry in group)
    if whole <= limits.small_bytes or 2 * group[largest].log_bytes <= whole:
        return [group]
    parts = group[:largest], group[largest + 1 :]
    return [joined for part in parts for joined in _worthwhile(part, limits)]


@dataclass(frozen=True, slots=True)
class _Weight:
    """What counts of some neighbours; offsets are [start, end), times [earliest, latest]."""

    bytes: int
    start: int
    end: int
    earliest: int
    latest: int
    batches: int

    @classmethod
    def of(cls, entry: SegmentEntry) -> "_Weight":
        earliest, latest = _times(entry)
        return cls(
            bytes=entry.log_bytes,
            start=entry.base_offset,
            end=entry.next_offset,
            earliest=earliest,
            latest=latest,
            batches=entry.log_bytes // _LEAST_BATCH_BYTES
            if entry.batch_count is None
            else entry.batch_count,
        )

    def plus(self, other: "_Weight") -> "_Weight":
        return _Weight(
            self.bytes + other.bytes,
            self.start,
            other.end,
            min(self.earliest, other.earliest),
            max(self.latest, other.latest),
            self.batches + other.batches,
        )

    def fits(self, limits: MergeLimits) -> bool:
        # Batches with an entry begin more than the interval apart. The time index has at most one
        # entry more than the offset index, and the larger ones.
        entries = min(self.batches, self.bytes // (limits.index_interval_bytes + 1))
        return (
            self.bytes <= limits.segment_bytes
            and self.latest - self.earliest <= limits.segment_ms
            and (entries + 1) * time_index.ENTRY_BYTES <= limits.segment_index_bytes
            and self.end - 1 - self.start <= MAX_RELATIVE_OFFSET
        )


def _times(entry: SegmentEntry) -> tuple[int, int]:
    """The span that the segment's timestamps surely lie in.

    Without any, the time it was made (LogSegment.largestTimestamp). A smallest timestamp that the
    row does not tell, and that of a record without a time, count as 0.
    """
    if entry.max_timestamp < 0:
        return entry.created_ms, entry.created_ms
    return max(entry.min_timestamp or 0, 0), entry.max_timestamp
