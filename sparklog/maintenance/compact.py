"""compact: of each key the latest record stays (`cleanup.policy=compact`).

    plan       which partitions are due, and which of their segments (maintenance.due)
    keys       the dirty segments' keys, shuffled by hash -> superseded offsets, also clean ones
    rewrite    groups of segments in which something goes -> new segments with key indexes
    commit     one for all partitions: old segments out, new ones in, the cleaner offsets grown

All older records of a key, wherever in the clean part they lie, go in the commit that makes the
newer one clean. So when the time of a tombstone has come, nothing is left that it hides.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparklog.config import TopicConfig
from sparklog.errors import SparklogError
from sparklog.log.compaction import CompactionPlan, GroupLimits, plan_groups
from sparklog.log.roll import RollPolicy
from sparklog.maintenance.due import DuePartition, due_partition
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.maintenance.rewrite import Part, Rewrite, rewrite
from sparklog.maintenance.superseded import (
    KeySource,
    Marks,
    bucket_bits,
    index_keys,
    mark,
)
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.edit import Done, PartitionState, TopicEdit
from sparklog.metadata.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription

RECORD_BYTES = 100
"""The size of a record that is assumed where a row has no record count."""


def compact(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Compact topics with cleanup.policy=compact.

    `options["force"]`: whatever the dirty ratio is. `options["reindex"]`: without the key indexes
    there are; the keys of clean segments are read, and these are written and indexed anew.
    """
    for topic in context.topics(topics):
        try:
            step = _step(context, topic, options)
        except SparklogError as error:
            step = failing_step(topic.name, error)
        if step is not None:
            yield step


def _step(context: JobContext, topic: TopicDescription, options: Mapping[str, Any]) -> Step | None:
    config = TopicConfig.parse(topic.configs)
    if not config.is_compacted:
        return None
    image = context.catalog.topic_image(topic)
    now_ms = context.clock.now_ms()
    planned = [
        due_partition(log, config, now_ms, options) for _, log in sorted(image.partitions.items())
    ]
    partitions = [one for one in planned if one is not None]
    if not partitions:
        return None
    return Step(
        topic=topic.name,
        rows=[one.as_row() for one in partitions],
        execute=_Compaction(context, topic, config, partitions, now_ms).run,
    )


@dataclass(frozen=True, slots=True)
class _Compaction:
    """One run over the partitions of a topic that are due."""

    context: JobContext
    topic: TopicDescription
    config: TopicConfig
    partitions: Sequence[DuePartition]
    now_ms: int

    def run(self) -> Outcome:
        """Compact them; a partition with a damaged segment is left as it is, and reported."""
        marks = self._marks()
        problems = {one.slot: one.problem for one in marks if one.problem is not None}
        groups = [
            (slot, group)
            for slot in range(len(self.partitions))
            if slot not in problems
            for group in self._groups(slot, [one for one in marks if one.slot == slot])
        ]
        answers = self.context.fleet.map(rewrite, [group for _, group in groups], "segments")
        written: dict[int, list[tuple[Rewrite, SegmentEntry | None]]] = defaultdict(list)
        for (slot, group), answer in zip(groups, answers, strict=True):
            if isinstance(answer, SparklogError):
                problems[slot] = str(answer)
            else:
                written[slot].append((group, answer))
        rounds = [
            _Round.of(one.plan, written[slot])
            for slot, one in enumerate(self.partitions)
            if slot not in problems
        ]
        return Outcome(
            counts=self._commit(rounds),
            problems=[
                f"{self.topic.name}-{self.partitions[slot].plan.partition}: {problem}"
                for slot, problem in sorted(problems.items())
            ],
        )

    def _marks(self) -> list[Marks]:
        bits = max(bucket_bits(_records(one.unindexed)) for one in self.partitions)
        directory = topic_directory(self.topic)
        sources = [
            KeySource(
                files=self.context.files,
                directory=directory,
                entry=entry,
                slot=slot,
                segment=number,
                bits=bits,
                aborted=one.aborted,
            )
            for slot, one in enumerate(self.partitions)
            for number, entry in enumerate(one.unindexed)
        ]
        clean = [one.indexed for one in self.partitions]
        reducer = partial(mark, self.context.files, directory, clean, bits)
        count = len(self.partitions) << bits
        answers = self.context.fleet.shuffle(index_keys, sources, reducer, count, "keys")
        marks = []
        for answer in answers:
            if isinstance(answer, SparklogError):
                raise answer
            marks.append(answer)
        return marks

    def _groups(self, slot: int, marks: Sequence[Marks]) -> list[Rewrite]:
        one = self.partitions[slot]
        touched = {entry.key for entry in one.unindexed}
        touched |= {key for some in marks for key in some.suspects}
        touched |= {entry.key for entry in one.plan.clean if _is_due(entry, self.now_ms)}
        limits = GroupLimits(
            segment_bytes=self.config.segment_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
        )
        segments = [*one.plan.clean, *one.plan.dirty]
        return [
            Rewrite(
                files=self.context.files,
                clock=self.context.clock,
                topic=self.topic,
                parts=[_part(entry, marks) for entry in group],
                policy=RollPolicy(
                    index_interval_bytes=self.config.index_interval_bytes,
                    segment_index_bytes=self.config.segment_index_bytes,
                ),
                end_offset=one.plan.end_offset,
                now_ms=self.now_ms,
                delete_retention_ms=self.config.delete_retention_ms,
                aborted=one.aborted,
                last_producers=frozenset().union(
                    *(one.last_producers[entry.key] for entry in group)
                ),
            )
            for group in plan_groups(segments, frozenset(touched), limits)
        ]

    def _commit(self, rounds: Sequence["_Round"]) -> dict[str, int]:
        """Commit the rounds whose segments are all live; return the counts."""
        now_ms = self.context.clock.now_ms()
        landed: list[_Round] = []

        def plan(image: TopicImage) -> TopicEdit | Done:
            landed[:] = [one for one in rounds if one.is_current(image)]
            if not landed:
                return Done()
            return TopicEdit(
                segments=[entry for one in landed for entry in one.new],
                remove=[entry.key for one in landed for entry in one.old],
                removed_ms=now_ms,
                partitions={
                    one.partition: PartitionState(cleaner_offset=one.end_offset) for one in landed
                },
            )

        if rounds:
            self.context.catalog.commit(self.topic, plan, operation="COMPACT")
        old = [entry for one in landed for entry in one.old]
        new = [entry for one in landed for entry in one.new]
        conflicts = len(rounds) - len(landed)
        return {
            "partitions": len(landed),
            "segments_before": len(old),
            "segments_after": len(new),
            "bytes_before": sum(entry.log_bytes for entry in old),
            "bytes_after": sum(entry.log_bytes for entry in new),
            **({"conflicts": conflicts} if conflicts else {}),
        }


@dataclass(frozen=True, slots=True)
class _Round:
    """The compaction of one partition, to be committed."""

    partition: int
    end_offset: int
    old: Sequence[SegmentEntry]
    new: Sequence[SegmentEntry]

    @classmethod
    def of(
        cls, plan: CompactionPlan, written: Sequence[tuple[Rewrite, SegmentEntry | None]]
    ) -> "_Round":
        """Return the round of a plan, its groups written."""
        return cls(
            plan.partition,
            plan.end_offset,
            [part.entry for group, _ in written for part in group.parts],
            [entry for _, entry in written if entry is not None],
        )

    def is_current(self, image: TopicImage) -> bool:
        """Whether the segments to be replaced are all live."""
        keys = [entry.key for entry in self.old]
        return len(image.partition(self.partition).live.find(keys)) == len(keys)


def _records(segments: Sequence[SegmentEntry]) -> int:
    return sum(
        entry.log_bytes // RECORD_BYTES if entry.record_count is None else entry.record_count
        for entry in segments
    )


def _is_due(entry: SegmentEntry, now_ms: int) -> bool:
    """Whether a clean segment holds a tombstone whose time has come."""
    return entry.delete_horizon_ms is not None and entry.delete_horizon_ms <= now_ms


def _part(entry: SegmentEntry, marks: Sequence[Marks]) -> Part:
    key = entry.key
    return Part(
        entry=entry,
        superseded=[one.superseded[key] for one in marks if key in one.superseded],
        suspects=[one.suspects[key] for one in marks if key in one.suspects],
    )
