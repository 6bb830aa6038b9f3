"""Repairs damage that `verify` has found: salvages damaged logs, and rebuilds indexes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sparklog.config import TopicConfig
from sparklog.errors import SparklogError
from sparklog.maintenance.build_index import index_segments
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.verification.quarantine import (
    Salvaged,
    SalvageWork,
    commit_salvaged,
    salvaged,
)
from sparklog.maintenance.verification.verified import Verdict
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription

Judged = tuple[SegmentEntry, Verdict]


@dataclass(slots=True)
class Repaired:
    """The keys of repaired segments, a note for each repair, and the problems that remain."""

    keys: set[SegmentKey] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def repair(context: JobContext, topic: TopicDescription, wrong: Sequence[Judged]) -> Repaired:
    """Repair segments: one commit for damaged logs, one for missing files, one for indexes."""
    done = Repaired()
    _salvage(context, topic, [one for one in wrong if one[1].log_problems], done)
    _index(context, topic, [entry for entry, verdict in wrong if not verdict.log_problems], done)
    return done


def _salvage(
    context: JobContext, topic: TopicDescription, wrong: Sequence[Judged], done: Repaired
) -> None:
    config = TopicConfig.parse(topic.configs)
    works = [
        SalvageWork(
            files=context.files,
            clock=context.clock,
            topic=topic,
            entry=entry,
            index_interval_bytes=config.index_interval_bytes,
            is_missing=verdict.is_missing,
            is_anothers=verdict.is_anothers,
        )
        for entry, verdict in wrong
    ]
    made: list[Salvaged] = []
    for work, answer in zip(works, context.fleet.map(salvaged, works, "salvage"), strict=True):
        if isinstance(answer, SparklogError):
            done.problems.append(f"{topic.name}-{work.entry.partition}: {answer}")
        else:
            made.append(answer)
    verdicts = {entry.key: verdict for entry, verdict in wrong}
    catalog, now_ms = context.catalog, context.clock.now_ms()
    # For a missing file vacuum needs no delay: its row gets an old time of removal.
    missing = [one for one in made if one.quarantined is None]
    landed = [
        *commit_salvaged(catalog, topic, [one for one in made if one not in missing]),
        *commit_salvaged(catalog, topic, missing, max(0, now_ms - config.delete_delay_ms)),
    ]
    for one in landed:
        done.keys.add(one.damaged.key)
        done.notes += _lines(topic, one, verdicts[one.damaged.key])


def _lines(topic: TopicDescription, one: Salvaged, verdict: Verdict) -> Iterator[str]:
    name = f"{topic.name}-{one.damaged.partition}"
    yield from (f"{name}: {problem}" for problem in verdict.log_problems)
    if one.quarantined is not None:
        yield f"{name}: put aside as {one.quarantined}"
    yield from (f"{name}: offsets [{start}, {end}) are lost" for start, end in verdict.lost)


def _index(
    context: JobContext, topic: TopicDescription, entries: Sequence[SegmentEntry], done: Repaired
) -> None:
    made = index_segments(context, topic, entries)
    done.problems += made.problems
    for entry in made.landed:
        done.keys.add(entry.key)
        done.notes.append(f"{topic.name}-{entry.partition}: new indexes of {entry.log_path}")
