"""Compaction as a job: the latest record of each key stays (`cleanup.policy=compact`).

    plan       chooses the partitions that are due, and their segments (`due`)
    keys       shuffles the keys of dirty segments by hash -> superseded offsets, dirty and clean
    rewrite    groups of segments that lose records -> new segments with key indexes
    commit     for all partitions: removes old segments, adds new ones, raises cleaner offsets

This process has only the rows of segments in memory: superseded offsets go directly from the tasks
that find them to the tasks that rewrite. A round reads a bounded number of records, as Kafka's
cleaner does, whose offset map has a fixed size. A run makes as many rounds as it needs.

The commit that makes a record clean also removes all older records of its key from the clean part.
So when a tombstone may be dropped, no older record of its key is left.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from sparklog.config import TopicConfig
from sparklog.errors import SparklogError
from sparklog.fleet import Answers
from sparklog.log.compaction import CompactionPlan, plan_groups
from sparklog.log.roll import RollPolicy
from sparklog.maintenance.compaction.due import DuePartition, due_partition
from sparklog.maintenance.compaction.rewrite import Found, Rewrite, rewrite
from sparklog.maintenance.compaction.superseded import (
    BUCKET_RECORDS,
    ROUND_RECORDS,
    Buckets,
    KeySource,
    Marks,
    Unreadable,
    bucket_bits,
    index_keys,
    mark,
)
from sparklog.maintenance.job import JobContext, Outcome, Step, tried
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.edit import Done, PartitionState, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription


def compact(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Compact topics with cleanup.policy=compact.

    `options["force"]`: whatever the dirty ratio is. `options["reindex"]`: do not use the existing
    key indexes; read the keys of clean segments, and rewrite these segments with new key indexes.
    """
    chosen = context.topics(topics)
    context.open_together(
        one for one in chosen if "compact" in one.configs.get("cleanup.policy", "")
    )
    for topic in chosen:
        yield from tried(topic.name, _rounds(context, topic, options))


def compact_partition(
    context: JobContext, topic: TopicDescription, partition: int
) -> Outcome | None:
    """Compact one partition in one round; return None if it is not due.

    The round reads about BUCKET_RECORDS dirty records at most, because this process has all of them
    in memory. Raises CommitConflictError, and the errors of reading a segment.
    """
    config, now_ms = TopicConfig.parse(topic.configs), context.clock.now_ms()
    due = due_partition(
        context.catalog.partition(topic, partition),
        config,
        now_ms,
        {"force": False, "reindex": False},
        records_max=BUCKET_RECORDS,
    )
    return None if due is None else _Compaction(context, topic, config, [due], now_ms).run()


def _rounds(
    context: JobContext, topic: TopicDescription, options: Mapping[str, Any]
) -> Iterator[Step]:
    """Yield a step for each round, until each partition is compacted up to its end.

    A partition that could not be compacted in its round gets no other round. Records that are
    produced meanwhile are left to the next run.
    """
    config = TopicConfig.parse(topic.configs)
    if not config.is_compacted:
        return
    reached: dict[int, int] = {}
    while True:
        now_ms = context.clock.now_ms()
        partitions = _due(context.to_plan(topic), config, now_ms, options, reached)
        if not partitions:
            return
        reached |= {one.plan.partition: one.next_offset for one in partitions}
        yield Step(
            topic=topic.name,
            rows=[one.as_row() for one in partitions],
            execute=_Compaction(context, topic, config, partitions, now_ms).run,
        )


def _due(
    image: TopicImage,
    config: TopicConfig,
    now_ms: int,
    options: Mapping[str, Any],
    reached: Mapping[int, int],
) -> list[DuePartition]:
    """Return the partitions of the next round: it reads ROUND_RECORDS at most, or one partition."""
    found: list[DuePartition] = []
    left = ROUND_RECORDS
    for number, log in sorted(image.partitions.items()):
        one = due_partition(
            log, config, now_ms, options, reached=reached.get(number, 0), records_max=ROUND_RECORDS
        )
        if one is None:
            continue
        left -= one.records
        if found and left < 0:
            break
        found.append(one)
    return found


@dataclass(frozen=True, slots=True)
class _Compaction:
    """One round over the partitions of a topic that are due."""

    context: JobContext
    topic: TopicDescription
    config: TopicConfig
    partitions: Sequence[DuePartition]
    now_ms: int

    def run(self) -> Outcome:
        """Compact the partitions; one with a damaged segment is reported and does not change."""
        with closing(self._marked()) as marks:
            problems, suspected = self._viewed(marks)
            groups = [
                (slot, group)
                for slot in range(len(self.partitions))
                if slot not in problems
                for group in self._groups(slot, suspected[slot])
            ]
            places = {
                entry.key: place
                for place, (_, group) in enumerate(groups)
                for entry in group.segments
            }
            works = [group for _, group in groups]
            answers = marks.join(rewrite, works, partial(_pieces, places), "segments")
        written: dict[int, list[tuple[Rewrite, SegmentEntry | None]]] = defaultdict(list)
        for (slot, group), answer in zip(groups, answers, strict=True):
            if isinstance(answer, SparklogError):
                problems[slot] = Unreadable.of(answer)
            else:
                written[slot].append((group, answer))
        rounds = [
            _Round.of(one.plan, written[slot])
            for slot, one in enumerate(self.partitions)
            if slot not in problems
        ]
        told = {
            slot: one.problem
            for slot, one in sorted(problems.items())
            if not one.is_missing or self._is_current(slot)
        }
        return Outcome(
            counts=self._commit(rounds, gone=len(problems) - len(told)),
            problems=[
                f"{self.topic.name}-{self.partitions[slot].plan.partition}: {problem}"
                for slot, problem in told.items()
            ],
        )

    def _is_current(self, slot: int) -> bool:
        """Return True if the log still has all segments of a partition in this round."""
        plan = self.partitions[slot].plan
        return self.context.are_live(self.topic, [*plan.clean, *plan.dirty])

    def _marked(self) -> Answers[Marks]:
        """Find the marks of all buckets. They stay in the processes that have found them."""
        directory = topic_directory(self.topic)
        bits = [bucket_bits(one.records) for one in self.partitions]
        *firsts, count = accumulate((1 << one for one in bits), initial=0)
        buckets = [
            Buckets(first=first, bits=some, indexed=one.indexed)
            for first, some, one in zip(firsts, bits, self.partitions, strict=True)
        ]
        sources = [
            KeySource(
                files=self.context.files,
                directory=directory,
                entry=entry,
                first=mine.first,
                segment=number,
                bits=mine.bits,
            )
            for mine, one in zip(buckets, self.partitions, strict=True)
            for number, entry in enumerate(one.unread)
        ]
        reducer = partial(mark, self.context.files, directory, buckets)
        return self.context.fleet.shuffle(index_keys, sources, reducer, count, "keys")

    def _viewed(self, marks: Answers[Marks]) -> tuple[dict[int, Unreadable], dict[int, set[int]]]:
        """Return problems by slot, and by slot the indexes of `indexed` segments with suspects."""
        problems: dict[int, Unreadable] = {}
        suspected: dict[int, set[int]] = defaultdict(set)
        for answer in marks.view(partial(_view, [one.indexed for one in self.partitions])):
            if isinstance(answer, SparklogError):
                raise answer
            if answer.unreadable is not None:
                problems[answer.slot] = answer.unreadable
            suspected[answer.slot].update(answer.suspected)
        return problems, suspected

    def _groups(self, slot: int, suspected: Collection[int]) -> list[Rewrite]:
        one = self.partitions[slot]
        touched = {entry.key for entry in one.unread}
        touched |= {one.indexed[place].key for place in suspected}
        touched |= {entry.key for entry in one.plan.clean if _is_due(entry, self.now_ms)}
        segments = [*one.plan.clean, *one.plan.dirty]
        return [
            Rewrite(
                files=self.context.files,
                clock=self.context.clock,
                topic=self.topic,
                segments=group,
                policy=RollPolicy(
                    index_interval_bytes=self.config.index_interval_bytes,
                    segment_index_bytes=self.config.segment_index_bytes,
                ),
                end_offset=one.plan.end_offset,
                now_ms=self.now_ms,
                delete_retention_ms=self.config.delete_retention_ms,
                last_producers=frozenset().union(
                    *(one.last_producers[entry.key] for entry in group)
                ),
            )
            for group in plan_groups(segments, frozenset(touched), self.config)
        ]

    def _commit(self, rounds: Sequence["_Round"], *, gone: int) -> dict[str, int]:
        """Commit the rounds whose segments are all live; return the counts.

        `gone` partitions could not be read, because others have removed segments meanwhile.
        Nothing lands if the topic's cleanup.policy is no longer compact.
        """
        landed: list[_Round] = []

        def plan(image: TopicImage) -> TopicEdit | Done:
            is_wanted = TopicConfig.parse(image.description.configs).is_compacted
            landed[:] = [one for one in rounds if is_wanted and one.is_current(image)]
            if not landed:
                return Done()
            return TopicEdit(
                segments=[entry for one in landed for entry in one.new],
                remove=[entry.key for one in landed for entry in one.old],
                partitions={
                    one.partition: PartitionState(cleaner_offset=one.end_offset) for one in landed
                },
            )

        if rounds:
            self.context.catalog.commit(self.topic, plan, operation="COMPACT")
        old = [entry for one in landed for entry in one.old]
        new = [entry for one in landed for entry in one.new]
        conflicts = gone + len(rounds) - len(landed)
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
        """Return the round of a plan and of its groups' new segments."""
        return cls(
            plan.partition,
            plan.end_offset,
            [entry for group, _ in written for entry in group.segments],
            [entry for _, entry in written if entry is not None],
        )

    def is_current(self, image: TopicImage) -> bool:
        """Whether all segments that the round replaces are still live."""
        keys = [entry.key for entry in self.old]
        return len(image.partition(self.partition).live.find(keys)) == len(keys)


def _is_due(entry: SegmentEntry, now_ms: int) -> bool:
    """Whether a clean segment has a tombstone that may be dropped now."""
    return entry.delete_horizon_ms is not None and entry.delete_horizon_ms <= now_ms


class _View(NamedTuple):
    """The part of one bucket's marks that this process needs."""

    slot: int
    unreadable: Unreadable | None
    suspected: Sequence[int]
    """The positions, in the partition's `indexed`, of segments with suspects."""


def _view(indexed: Sequence[Sequence[SegmentEntry]], marks: Marks) -> _View:
    """Return the view of marks. Called in the process that holds them."""
    places = [
        place for place, entry in enumerate(indexed[marks.slot]) if entry.key in marks.suspects
    ]
    return _View(marks.slot, marks.unreadable, places)


def _pieces(places: Mapping[SegmentKey, int], marks: Marks) -> Iterator[tuple[int, Found]]:
    """Cut marks into pieces, each with the place of the group that holds its segment."""
    for key in (marks.superseded.keys() | marks.suspects.keys()) & places.keys():
        yield (
            places[key],
            Found(
                segment=key,
                superseded=marks.superseded.get(key),
                suspects=marks.suspects.get(key),
            ),
        )
