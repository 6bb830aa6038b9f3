"""Merges the tails of logs for gateways: slices of shared segments at a log's end become segments.

A group commit leaves a slice, and a row, in every partition that it appends to. A tail is due when
one of these is true:

    it has more slices than SLICES_MAX             so that there are few rows
    bytes >= sparklog.shared.segment.max.bytes     a writer would have written a segment instead
    a slice is older than sparklog.shared.segment.max.age.ms
                                                   as in `merge_segments`

If many tails have more than SLICES_MIN slices, they do not become segments while they are small and
young. Instead the slices of a tail become one slice, in a shared segment with those of other tails
(`merged_slices`). Large first slices of a tail stay as they are. Tails have different bounds, so
that not all of them are merged in the same second.

The job `merge_segments` does the same for whole logs, and joins the resulting segments again.
Segments that were merged here are joined here, too, but only many at a time (GROWTH).
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final
from zlib import crc32

from sparklog.config import TopicConfig
from sparklog.log.merge import Group, MergeLimits, fit, plan_merge
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.merging.merge_segments import merge_groups
from sparklog.maintenance.merging.merged_slices import SliceGroup, may_merge, merge_slices
from sparklog.maintenance.merging.spans import Spans
from sparklog.maintenance.parts import parts_of
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.metadata.state.segments import Slices
from sparklog.model import SegmentEntry, TopicDescription

SLICES_MAX: Final = 32
"""A tail with more slices is due."""
SLICES_MIN: Final = 12
"""If many tails have more slices, some of these are merged before they are due."""
JOIN_SLICES_MAX: Final = 24
"""The highest bound of a partition (`slices_max`). It is below SLICES_MAX: the next run comes some
five seconds later, and a tail may get a slice in each second."""
MANY: Final = 32
"""If more tails than this have more than SLICES_MIN slices, they are merged in a shared segment."""
JOIN_BYTES_MAX: Final = 128 * 1024
"""A tail with more bytes becomes a segment."""
JOIN_GROWTH: Final = 4
"""A first slice with more than this many times the bytes of all slices after it is not merged with
them. So a byte is copied some five times until it is in a segment, not with each merge."""
ROUND_GROUPS: Final = 256
"""The most groups in one shared segment. Twice their bytes may be in memory: 64 MiB."""
ROWS_MAX: Final = 256
"""The most rows at the end of a log that are read; more are read if all of them are slices."""
LONG_ROWS_MAX: Final = 1024
"""The most rows that are read if all are slices. If a merge leaves slices behind, they come to lie
between segments, and a later merge has to copy these segments, too."""
GROWTH: Final = 8
"""A merge with older segments must make a segment at least this many times as large as each. So the
bytes of a fast producer are copied two or three times while it produces, not ten times."""
STEP_SLICES: Final = 128
"""The most slices that are merged in one commit, unless one group has more: produce requests wait
until it has landed."""
LONG_SLICES_MAX: Final = 256
"""If tails are merged in turn, a tail with more slices does not wait for its turn."""
TOGETHER_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes of slices that are read together. Up to twice these bytes are in memory until the
slices are merged."""


def merge_tails(
    context: JobContext, image: Image, topics: Iterable[TopicDescription]
) -> Iterator[Outcome]:
    """Merge the tails that are due, a few in each commit; yield the outcome of each commit.

    `image` may be of any version. A topic that it has not opened is left out. A tail that another
    process changes meanwhile is left to the next call.
    """
    now_ms = context.clock.now_ms()
    found = (_tail_of(topic, log, now_ms) for topic in topics for log in _logs(image, topic))
    joins, others = _divided(tail for tail in found if tail is not None)
    for at in range(0, len(joins), ROUND_GROUPS):
        outcome, refused = merge_slices(context, joins[at : at + ROUND_GROUPS])
        yield outcome
        for one in refused:
            yield merge_groups(context, one.topic, [one.group])
    for _, tails in groupby(others, key=lambda tail: tail.topic.topic_id):
        of_topic = list(tails)
        groups = (group for tail in of_topic for group in tail.groups())
        for step in parts_of(groups, STEP_SLICES, len):
            yield merge_groups(context, of_topic[0].topic, step)


def _logs(image: Image, topic: TopicDescription) -> Iterable[PartitionLog]:
    """Return the logs of a topic, none if the image has not opened it."""
    opened = image.topic(topic.topic_id)
    return () if opened is None or not opened.is_open else opened.partitions.values()


@dataclass(frozen=True, slots=True, eq=False)
class _Tail:
    """The end of a log that has at least one slice."""

    topic: TopicDescription
    config: TopicConfig
    log: PartitionLog
    rows_max: int
    slices: Slices
    """The slices among the last `rows_max` segments."""
    before_ms: int
    """A tail with a slice from before this time is due."""

    @property
    def last(self) -> list[SegmentEntry]:
        """The last segments, without the newest of a compacted topic: it must stay dirty."""
        found = self.log.live.last(self.rows_max)
        return found[:-1] if self.config.is_compacted else found

    @property
    def is_due(self) -> bool:
        """Whether the slices must become a segment: they are too many, too large or too old."""
        return self.slices.total > SLICES_MAX or self.is_large_or_old

    @property
    def is_large_or_old(self) -> bool:
        """Whether the slices together are as large as a shared segment, or one of them is old."""
        is_large = self.slices.log_bytes >= self.config.shared_segment_max_bytes
        return is_large or self.slices.oldest_ms < self.before_ms

    @property
    def slices_max(self) -> int:
        """If there are many tails, a tail with more slices is merged.

        The number depends on the partition, so that not all are merged in the same second.
        """
        return JOIN_SLICES_MAX - crc32(self.log.name.encode()) % (JOIN_SLICES_MAX - SLICES_MIN)

    def groups(self) -> list[Group]:
        """Return the groups that become segments."""
        return plan_merge(
            self.last,
            replace(MergeLimits.of(self.config), growth=GROWTH),
            cleaner_offset=self.log.cleaner_offset,
            log_start_offset=self.log.log_start_offset,
            slices_before_ms=self.before_ms,
        )

    def join(self) -> SliceGroup | None:
        """Return the slices after the last segment, without large first ones; None if they stay.

        Returns None in four cases: the slices after the segment have more than JOIN_BYTES_MAX
        bytes; the chosen ones are less than half of the tail's slices; they do not fit into one
        segment; their rows lack figures (`may_merge`).
        """
        found = self.last
        first = next((at for at in range(len(found), 0, -1) if not found[at - 1].is_shared), 0)
        least = max(self.log.cleaner_offset, self.log.log_start_offset)
        group = tuple(one for one in found[first:] if one.base_offset >= least)
        is_small = sum(one.log_bytes for one in group) <= JOIN_BYTES_MAX
        group = _without_large(group)
        is_whole = 2 * len(group) > self.slices.total
        if is_whole and is_small and may_merge(group) and fit(group, MergeLimits.of(self.config)):
            return SliceGroup(self.topic, group)
        return None


def _without_large(group: Group) -> Group:
    """Leave out first slices with more than JOIN_GROWTH times the bytes of all after them."""
    while group and group[0].log_bytes > JOIN_GROWTH * sum(one.log_bytes for one in group[1:]):
        group = group[1:]
    return group


def _tail_of(topic: TopicDescription, log: PartitionLog, now_ms: int) -> _Tail | None:
    """Return the end of a log; None if it has no slices."""
    rows_max, slices = ROWS_MAX, log.live.slices(ROWS_MAX)
    if not slices.total:
        return None
    if slices.total == ROWS_MAX:
        rows_max, slices = LONG_ROWS_MAX, log.live.slices(LONG_ROWS_MAX)
    config = TopicConfig.parse(topic.configs)
    return _Tail(topic, config, log, rows_max, slices, now_ms - config.shared_segment_max_age_ms)


def _divided(tails: Iterable[_Tail]) -> tuple[list[SliceGroup], list[_Tail]]:
    """Return the groups that become one slice each, and the tails that become segments."""
    others, few = [], []
    for tail in tails:
        if tail.is_large_or_old:
            others.append(tail)
        elif tail.slices.total > SLICES_MIN:
            few.append(tail)
    if len(few) <= MANY:
        return [], [*others, *(tail for tail in few if tail.is_due)]
    joins: list[SliceGroup] = []
    for tail in few:
        if tail.slices.total > tail.slices_max:
            group = tail.join()
            if group is not None:
                joins.append(group)
            elif tail.is_due:
                others.append(tail)
    return joins, sorted(others, key=lambda tail: tail.topic.topic_id)


def merge_tails_in_turn(
    context: JobContext,
    image: Image,
    topic: TopicDescription,
    numbers: Container[int],
    *,
    is_turn: bool,
) -> Iterator[Outcome]:
    """Merge the due tails of some partitions (`numbers`), each in its own commit, if `is_turn`.

    It is for a topic whose tails all grow fast and at the same time: their slices lie side by side,
    and are read together. A tail of more than LONG_SLICES_MAX slices does not wait for the turn.
    Otherwise as `merge_tails`.
    """
    now_ms = context.clock.now_ms()
    due: list[list[Group]] = []
    logs = [log for log in _logs(image, topic) if log.partition in numbers]
    for log in sorted(logs, key=lambda log: log.partition):
        if is_turn or log.live.slices(LONG_ROWS_MAX).total > LONG_SLICES_MAX:
            tail = _tail_of(topic, log, now_ms)
            groups = tail.groups() if tail is not None and tail.is_due else []
            if groups:
                due.append(groups)
    for part in parts_of(due, TOGETHER_BYTES_MAX, _slice_bytes):
        of_all = (group for groups in part for group in groups)
        spans = Spans(context.files, of_all) if len(part) > 1 else None
        for groups in part:
            yield merge_groups(context, topic, groups, spans)


def _slice_bytes(groups: Iterable[Group]) -> int:
    return sum([one.log_bytes for group in groups for one in group if one.is_shared])
