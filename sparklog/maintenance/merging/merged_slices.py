"""Merges slices of many partitions into slices of one new shared segment.

    slice slice …    of each partition, from many shared segments
    slice            of each partition, in one new shared segment, with the log's own offsets

If each of thousands of partitions got a segment of its own, each would need three files and their
syncs, for a few KB. Here all partitions share one file and its sync.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sparklog.errors import SparklogError
from sparklog.log.merge import Group
from sparklog.log_writer import SharedSegment
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.merging.joined_slices import JOINED_BYTES_MAX, Joined, joined_bytes
from sparklog.maintenance.merging.merged import aborted_of, created_ms_of
from sparklog.maintenance.merging.spans import Spans
from sparklog.maintenance.parts import parts_of
from sparklog.metadata.catalog import Write
from sparklog.metadata.state.edit import Done, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.record.checksum import crc32c

STEP_SLICES: Final = 512
"""The most slices that are merged in one commit, unless one group has more: produce requests wait
until it has landed."""


class SliceGroup(NamedTuple):
    """Slices of one partition that follow each other in the log; they become one slice."""

    topic: TopicDescription
    group: Group

    def log_bytes(self) -> int:
        """Return the bytes of the slices."""
        return sum(entry.log_bytes for entry in self.group)


class _Merge(NamedTuple):
    """A group, and the slice that it has become."""

    topic: TopicDescription
    group: Group
    entry: SegmentEntry


def may_merge(group: Group) -> bool:
    """Whether the row of the merged slice can be computed from the rows of its slices.

    False if a row lacks a figure, or if there is a gap of offsets in a slice or between two slices:
    readers assume that a slice has no gap.
    """
    tell_all = all(
        one.is_dense
        and None not in (one.batch_count, one.min_timestamp, one.max_leader_epoch, one.producer_ids)
        for one in group
    )
    return tell_all and all(one.next_offset == other.base_offset for one, other in pairwise(group))


def merge_slices(
    context: JobContext, groups: Sequence[SliceGroup]
) -> tuple[Outcome, list[SliceGroup]]:
    """Merge each group into a slice of one new shared segment; commit the unchanged groups.

    `may_merge` is True for every group. Also returns the groups whose bytes cannot be read, or do
    not agree with their rows.
    """
    shared = SharedSegment(context.files, context.clock)
    spans = Spans(context.files, (one.group for one in groups))
    made: list[_Merge] = []
    refused: list[SliceGroup] = []
    try:
        for part in parts_of(groups, JOINED_BYTES_MAX, SliceGroup.log_bytes):
            merges = _written(part, spans, shared)
            for one in part if merges is None else ():
                alone = _written([one], spans, shared)
                made += alone or ()
                refused += [one] if alone is None else []
            made += merges or ()
        shared.close()
    except BaseException:
        shared.abort()
        raise
    steps = parts_of(made, STEP_SLICES, lambda merge: len(merge.group))
    landed = [merge for step in steps for merge in _committed(context, step)]
    counts = {
        "segments": sum(len(merge.group) for merge in landed),
        "into": len(landed),
        "bytes": sum(merge.entry.log_bytes for merge in landed),
        "conflicts": len(made) - len(landed),
    }
    return Outcome(counts=counts), refused


def _written(
    part: Sequence[SliceGroup], spans: Spans, shared: SharedSegment
) -> list[_Merge] | None:
    """Write the merged slice of each group. If one fails, write nothing and return None."""
    slices = [entry for one in part for entry in one.group]
    try:
        found = joined_bytes(slices, [spans.bytes_of(entry) for entry in slices])
    except SparklogError:
        return None
    return None if found is None else list(_placed(part, found, shared))


def _placed(part: Iterable[SliceGroup], found: Joined, shared: SharedSegment) -> Iterator[_Merge]:
    start = 0
    for topic, group in part:
        end = start + sum(entry.log_bytes for entry in group)
        data = found.data[start:end].data
        path, position = shared.put([data], flush=True)
        yield _Merge(topic, group, _row(group, path, position, crc32c(data)))
        start = end


def _row(group: Group, path: str, position: int, crc: int) -> SegmentEntry:
    """Return the row of the merged slice, from the rows of a group that `may_merge`."""
    first, last = group[0], group[-1]
    newest = max(group, key=lambda one: one.max_timestamp)  # the first of several
    codecs = {one.codec for one in group}
    return SegmentEntry(
        partition=first.partition,
        base_offset=first.base_offset,
        next_offset=last.next_offset,
        file_base_offset=first.base_offset,
        log_path=path,
        log_bytes=sum(one.log_bytes for one in group),
        log_position=position,
        log_crc32c=crc,
        record_count=last.next_offset - first.base_offset,
        batch_count=sum(one.batch_count or 0 for one in group),
        min_timestamp=min(one.min_timestamp or 0 for one in group),
        max_timestamp=newest.max_timestamp,
        max_timestamp_delta=newest.max_timestamp_offset - first.base_offset,
        codec=codecs.pop() if len(codecs) == 1 else None,
        max_leader_epoch=max(one.max_leader_epoch or 0 for one in group),
        producer_ids=tuple(sorted({each for one in group for each in one.producer_ids or ()})),
        transactional=any(one.transactional for one in group),
        aborted=aborted_of(group),
        created_ms=created_ms_of(group),
    )


def _committed(context: JobContext, step: Sequence[_Merge]) -> list[_Merge]:
    """Replace the groups that have not changed, in one commit; return them."""
    of_topics: dict[str, list[_Merge]] = {}
    for merge in step:
        of_topics.setdefault(merge.topic.topic_id, []).append(merge)
    landed: dict[str, list[_Merge]] = {}

    def write(topic_id: str, merges: Sequence[_Merge]) -> Write:
        def plan(image: TopicImage) -> TopicEdit | Done:
            current = landed[topic_id] = [one for one in merges if _is_current(image, one)]
            if not current:
                return Done()
            return TopicEdit(
                segments=[one.entry for one in current],
                remove=[entry.key for one in current for entry in one.group],
            )

        return Write(topic=merges[0].topic, plan=plan)

    writes = [write(topic_id, merges) for topic_id, merges in of_topics.items()]
    context.catalog.commit_all(writes, operation="MERGE SEGMENTS", patient=True)
    return [merge for merges in landed.values() for merge in merges]


def _is_current(image: TopicImage, merge: _Merge) -> bool:
    """Whether the merged slices are still live and unchanged.

    Also False if the cleaner offset now lies between them, or if the topic is closed.
    """
    if image.deleted_ms is not None:
        return False
    group, found = merge.group, image.partition(merge.entry.partition)
    is_cut = group[0].base_offset < found.cleaner_offset < group[-1].next_offset
    return not is_cut and found.live.find([entry.key for entry in group]) == list(group)
