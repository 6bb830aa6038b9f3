"""Which consecutive segments of a partition to join, so that no byte is copied again and again.

    limits      bytes <= segment.bytes; span of timestamps <= segment.ms, unless the group is small;
                entries of each index within segment.index.bytes; span of offsets <= 2^31 - 1
    alone       a slice of a shared segment that is old enough
    never       across the cleaner offset; a segment with a key index and one without; a segment
                with a transaction index; a segment that is wholly below the log start
    packing     from the oldest segment on, a group takes its next neighbour while the limits allow

    full group  the next neighbour does not fit: the group is joined, whatever the sizes
    open group  it may still grow: joined if its largest segment is at most half of it, or if the
                whole is small; else the largest is left out, and the rule is applied to the
                segments before it and to those behind it

What it costs, with `growth` 2:

    a byte      is copied at most log2(segment.bytes / small) times while its group is open, because
                its segment at least doubles each time; and once more when the group is full
    a run       also copies small groups, each of `small_bytes` at most
    a log       has full groups, of which no two neighbours fit together, and an open end of about
                log2(segment.bytes / small) segments

With `growth` g the logarithm is that of base g, and the open end has up to g segments of each size.

A small group may mix old timestamps with new ones; without that, a log of such slices would get
more and more rows. Its times are limited as in a broker (LogSegment.shouldRoll): no timestamp is
more than segment.ms above the smallest timestamp of the first segment. If the first segment alone
spans more than segment.ms, the limit counts from its largest timestamp, and all segments of the
group must have been made within segment.ms. So a small segment does not take in the newest records
for ever.

The time of a segment without timestamps is the time when it was made. A merge can change that time
for its segment, so a later run may copy the bytes once more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sparklog.config import TopicConfig
from sparklog.log import time_index
from sparklog.model import MAX_RELATIVE_OFFSET, SegmentEntry
from sparklog.record import layout

Group = tuple[SegmentEntry, ...]
"""Segments of one partition, in the order of their offsets."""

SMALL_BYTES: Final = 1024 * 1024
"""Kafka's smallest segment.bytes: opening such a segment costs more than copying it."""

_LEAST_BATCH_BYTES: Final = layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V0


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """The limits of one segment: a topic's settings, by Kafka's names.

    `segment_ms` is TopicConfig.max_segment_ms.
    """

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    small_bytes: int = SMALL_BYTES
    """A group up to this size is small. While it is open it is joined, whatever the sizes in it."""
    growth: int = 2
    """A larger one is joined if it is at least this many times as large as its largest segment."""

    @classmethod
    def of(cls, config: TopicConfig) -> "MergeLimits":
        """Return the limits of a topic."""
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
    """Return the groups of live segments that become one segment each, in offset order.

    A group has two segments or more. A slice of a shared segment that was made before
    `slices_before_ms` is a group even alone. With `seal` an open group counts as full, and a single
    segment is a group unless it is sealed and has a file of its own.

    `entries` are one partition's live segments in offset order; there may be gaps between them.
    """
    live = (entry for entry in entries if entry.next_offset > log_start_offset)
    groups: list[Group] = []
    for run in _runs(live, cleaner_offset):
        packed = _packed(run, limits)
        if seal:
            groups += [group for group in packed if len(group) > 1 or _needs_sealing(group[0])]
            continue
        *full, tail = packed
        chosen = [group for group in full if len(group) > 1] + _worthwhile(tail, limits)
        groups += chosen + _due_slices(run, chosen, slices_before_ms)
    return sorted(groups, key=lambda group: group[0].base_offset)


def fit(group: Sequence[SegmentEntry], limits: MergeLimits) -> bool:
    """Return True if the limits allow one segment for the whole group, which is not empty."""
    return _Weight.of(*group).fits(limits)


def _needs_sealing(entry: SegmentEntry) -> bool:
    return entry.is_shared or entry.shift != 0


def _due_slices(
    run: Sequence[SegmentEntry], chosen: Sequence[Group], before_ms: int
) -> list[Group]:
    """Return the old slices of shared segments that are in no group, each as a group of its own."""
    taken = {entry.key for group in chosen for entry in group}
    return [
        (entry,)
        for entry in run
        if entry.is_shared and entry.created_ms < before_ms and entry.key not in taken
    ]


def _runs(entries: Iterable[SegmentEntry], cleaner_offset: int) -> Iterator[list[SegmentEntry]]:
    """Yield runs of neighbours that may be joined if the limits allow it; no run is empty."""
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
    """Return the run in groups, each as long as the limits allow; all but the last are full."""
    if fit(run, limits):
        return [tuple(run)]
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
    """Return the parts of an open group that are small, or much larger than any of its segments."""
    if len(group) < 2:
        return []
    largest = max(range(len(group)), key=lambda slot: group[slot].log_bytes)
    whole = sum(entry.log_bytes for entry in group)
    if whole <= limits.small_bytes or limits.growth * group[largest].log_bytes <= whole:
        return [group]
    parts = group[:largest], group[largest + 1 :]
    return [joined for part in parts for joined in _worthwhile(part, limits)]


class _Times(NamedTuple):
    """Times in ms: all timestamps are within `earliest` and `latest`; `made` is the creation."""

    earliest: int
    latest: int
    made: int

    @property
    def span(self) -> int:
        """The largest distance of two timestamps."""
        return self.latest - self.earliest


@dataclass(frozen=True, slots=True)
class _Weight:
    """The sums of some neighbours, whose offsets are [start, end).

    `first` are the times of the first segment, `times` those of all.
    """

    bytes: int
    start: int
    end: int
    first: _Times
    times: _Times
    batches: int

    @classmethod
    def of(cls, *group: SegmentEntry) -> "_Weight":
        times = [_times(entry) for entry in group]
        return cls(
            bytes=sum([entry.log_bytes for entry in group]),
            start=group[0].base_offset,
            end=group[-1].next_offset,
            first=times[0],
            times=_enclosing(times),
            batches=sum([_batches(entry) for entry in group]),
        )

    def plus(self, other: "_Weight") -> "_Weight":
        return _Weight(
            self.bytes + other.bytes,
            self.start,
            other.end,
            self.first,
            _enclosing((self.times, other.times)),
            self.batches + other.batches,
        )

    def fits(self, limits: MergeLimits) -> bool:
        # Two batches with an entry begin more than the interval apart. The time index may have one
        # entry more than the offset index, and its entries are larger.
        entries = min(self.batches, self.bytes // (limits.index_interval_bytes + 1))
        return (
            self.bytes <= limits.segment_bytes
            and (
                self.times.span <= limits.segment_ms
                or (self.bytes <= limits.small_bytes and self._is_brief(limits.segment_ms))
            )
            and (entries + 1) * time_index.ENTRY_BYTES <= limits.segment_index_bytes
            and self.end - 1 - self.start <= MAX_RELATIVE_OFFSET
        )

    def _is_brief(self, segment_ms: int) -> bool:
        """Whether the group's times keep to the limits of a small group."""
        first, last = self.first, self.times
        if first.span <= segment_ms:
            return last.latest - first.earliest <= segment_ms
        return last.latest - first.latest <= segment_ms and last.made - first.made <= segment_ms


def _enclosing(times: Sequence[_Times]) -> _Times:
    """Return the times that enclose all; `made` is the newest."""
    return _Times(
        min([one.earliest for one in times]),
        max([one.latest for one in times]),
        max([one.made for one in times]),
    )


def _times(entry: SegmentEntry) -> _Times:
    """Return the times of a segment.

    Without timestamps all are the time it was made (LogSegment.largestTimestamp). `earliest` is 0
    if the row does not have it, or if a record has no time.
    """
    made = entry.created_ms
    if entry.max_timestamp < 0:
        return _Times(made, made, made)
    return _Times(max(entry.min_timestamp or 0, 0), entry.max_timestamp, made)


def _batches(entry: SegmentEntry) -> int:
    """Return how many batches a segment has, or may have at most."""
    known = entry.batch_count
    return entry.log_bytes // _LEAST_BATCH_BYTES if known is None else known
