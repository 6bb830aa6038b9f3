"""A broker's log directory becomes topics here: topics made, partitions taken, one commit a topic.

    broker dir -> checked, linked and copied, several partitions at once -> Change -> commit

A partition that is damaged is refused as a whole, and the others go on. Importing again takes what
came since. Topics that are made here keep everything (retention.ms=-1) unless told otherwise.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import pyarrow.compute as pc

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import (
    CommitConflictError,
    InvalidOptionError,
    LogDirError,
    SparklogError,
    UnknownTopicError,
)
from sparklog.interop.broker_dir import BrokerDir, PartitionDir
from sparklog.interop.checkpoints import CLEANER, LOG_START
from sparklog.interop.import_partition import (
    ImportedPartition,
    ImportRules,
    Known,
    PartitionImport,
)
from sparklog.interop.staging import check_finished
from sparklog.interop.transactions import Span, spans_of, with_spans
from sparklog.manifest.catalog import Catalog
from sparklog.manifest.store import Change, Done, Snapshot
from sparklog.manifest.tables import segment_entries
from sparklog.model import OffsetRange, SegmentEntry, TopicDescription, TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"
KEEP: Final = {"retention.ms": "-1"}
COMPACT: Final = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What to import and how. `topics` None means all but those whose names begin with `__`.

    Without `flush` nothing is synced.
    """

    topics: Sequence[str] | None = None
    check: bool = True
    link: bool = True
    flush: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    workers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """What became of one partition: the offsets it got, or why it was refused."""

    place: TopicPartition
    added: OffsetRange | None = None
    segments: int = 0
    bytes: int = 0
    torn_bytes: int = 0
    problem: SparklogError | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One partition to take, and what is known of it."""

    source: PartitionDir
    known: Known


def import_log_dir(
    admin: AdminClient,
    catalog: Catalog,
    log_dir: str,
    options: ImportOptions,
    progress: Callable[[TopicPartition], None] = lambda _: None,
) -> list[PartitionReport]:
    """Import a stopped (or copied) broker's log directory; the reports in the order of partitions.

    `progress` is told of every partition that was taken or refused, from several threads. Raises
    LogDirError (also when a broker runs on the directory), UnknownTopicError (a topic the directory
    does not have), CorruptionError for checkpoints of all of it, and the errors of a commit.
    """
    broker = BrokerDir(log_dir)
    broker.check_stopped()
    check_finished(broker.path)
    sources = _chosen(broker.partitions(), options.topics)
    starts, cleaned = broker.offsets(LOG_START), broker.offsets(CLEANER)
    reports: list[PartitionReport] = []
    for name, parts in sources.items():
        for one in parts:
            if one.problem is not None:
                reports.append(PartitionReport(place=one.place, problem=one.problem))
                progress(one.place)
        sound = [one for one in parts if one.problem is None]
        if not sound:
            continue
        topic = _topic(admin, catalog, name, sound, _config(sound, cleaned, options.config))
        snapshot = catalog.store(topic).snapshot()
        jobs = [Job(one, _what_is_known(snapshot, one.place, starts, cleaned)) for one in sound]
        reports += _import_topic(catalog, topic, jobs, options, progress)
    return sorted(reports, key=lambda report: report.place)


def _what_is_known(
    snapshot: Snapshot,
    place: TopicPartition,
    starts: Mapping[TopicPartition, int],
    cleaned: Mapping[TopicPartition, int],
) -> Known:
    state = snapshot.state(place.partition)
    return Known(
        state=state,
        open_at={
            span.producer_id: span.first
            for entry in _with_aborted(snapshot, place.partition)
            for span in spans_of(entry)
            if span.last >= state.imported_end_offset
        },
        log_start=starts.get(place, 0),
        cleaner_offset=cleaned.get(place, 0),
    )


def _with_aborted(snapshot: Snapshot, partition: int) -> list[SegmentEntry]:
    """The live segments of a partition that aborted transactions reach into."""
    live = snapshot.live
    chosen = pc.and_(
        pc.equal(live.column("partition"), partition), pc.is_valid(live.column("aborted"))
    )
    return segment_entries(live.filter(chosen))


def _chosen(
    partitions: Iterable[PartitionDir], topics: Sequence[str] | None
) -> dict[str, list[PartitionDir]]:
    """The directories by topic."""
    found: dict[str, list[PartitionDir]] = {}
    for one in partitions:
        found.setdefault(one.place.topic, []).append(one)
    if topics is None:
        return {name: parts for name, parts in found.items() if not name.startswith("__")}
    missing = [name for name in topics if name not in found]
    if missing:
        raise UnknownTopicError(
            f"the directory has no partition of {missing[0]!r}; it has {', '.join(sorted(found))}",
            topic=missing[0],
        )
    internal = [name for name in topics if name.startswith("__")]
    if internal:
        raise InvalidOptionError(
            f"{internal[0]!r} is the broker's own: its records mean nothing here", option="topic"
        )
    return {name: found[name] for name in dict.fromkeys(topics)}


def _config(
    parts: Sequence[PartitionDir],
    cleaned: Mapping[TopicPartition, int],
    given: Mapping[str, str],
) -> dict[str, str]:
    """The configs of a topic that is made: a broker keeps them elsewhere."""
    is_compacted = any(one.place in cleaned for one in parts)
    return {**KEEP, **(COMPACT if is_compacted else {}), **given}


def _topic(
    admin: AdminClient,
    catalog: Catalog,
    name: str,
    parts: Sequence[PartitionDir],
    config: Mapping[str, str],
) -> TopicDescription:
    """The topic, made or grown where it has to be."""
    count = max(one.place.partition for one in parts) + 1
    if _known(catalog, name) is None:
        admin.create_topics([NewTopic(name, count, config=config)])
    topic = catalog.topic(name)
    if topic.num_partitions < count:
        admin.create_partitions({name: count})
        topic = catalog.topic(name)
    return topic


def _known(catalog: Catalog, name: str) -> TopicDescription | None:
    try:
        return catalog.topic(name)
    except (UnknownTopicError, LogDirError):
        return None


def _import_topic(
    catalog: Catalog,
    topic: TopicDescription,
    jobs: Sequence[Job],
    options: ImportOptions,
    progress: Callable[[TopicPartition], None],
) -> list[PartitionReport]:
    store = catalog.store(topic)
    rules = ImportRules(now_ms=catalog.clock.now_ms(), check=options.check, link=options.link)
    taken: dict[int, ImportedPartition] = {}

    def take(job: Job) -> PartitionReport:
        place = job.source.place
        try:
            found = PartitionImport(catalog.files, topic, job.source, rules).run(job.known)
        except SparklogError as error:
            return PartitionReport(place=place, problem=_alone(error))
        finally:
            progress(place)
        taken[place.partition] = found
        return _report(place, job.known, found)

    with ThreadPoolExecutor(options.workers or os.cpu_count()) as pool:
        reports = list(pool.map(take, jobs))
    if options.flush:
        catalog.files.sync(path for found in taken.values() for path in found.paths)
    known = {job.source.place.partition: job.known for job in jobs}
    store.commit(lambda snapshot: _change(snapshot, known, taken))
    return reports


def _alone(error: SparklogError) -> SparklogError:
    """An error without the frames it came through: they hold what was decompressed."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _report(place: TopicPartition, known: Known, found: ImportedPartition) -> PartitionReport:
    return PartitionReport(
        place=place,
        added=OffsetRange(
            place.partition, known.state.imported_end_offset, found.state.imported_end_offset
        ),
        segments=len(found.entries),
        bytes=sum(entry.log_bytes for entry in found.entries),
        torn_bytes=found.torn_bytes,
    )


def _change(
    snapshot: Snapshot, known: Mapping[int, Known], taken: Mapping[int, ImportedPartition]
) -> Change | Done:
    """The commit of a topic: new segments, and old rows whose open transactions have ended."""
    for partition in taken:
        if snapshot.state(partition) != known[partition].state:
            raise CommitConflictError(
                f"partition {partition}: somebody else wrote to it during the import"
            )
    grown = {
        partition: found.state
        for partition, found in taken.items()
        if found.state.grown(known[partition].state) != known[partition].state
    }
    if not grown:
        return Done()
    return Change(
        segments=[entry for partition in sorted(grown) for entry in taken[partition].entries],
        partitions=grown,
        replace=[
            entry
            for partition in sorted(grown)
            if known[partition].open_at
            for entry in _settled(snapshot, partition, known[partition], taken[partition])
        ],
        allow_gaps=True,
    )


def _settled(
    snapshot: Snapshot, partition: int, known: Known, found: ImportedPartition
) -> list[SegmentEntry]:
    """The rows that say of a transaction that it is open, with what has become of it."""
    ends = {(span.producer_id, span.first): span for span in found.aborted}
    rows = []
    for entry in _with_aborted(snapshot, partition):
        spans = [_settled_span(span, known, found, ends) for span in spans_of(entry)]
        settled = with_spans(entry, [span for span in spans if span is not None])
        if settled != entry:
            rows.append(settled)
    return rows


def _settled_span(
    span: Span, known: Known, found: ImportedPartition, ends: Mapping[tuple[int, int], Span]
) -> Span | None:
    key = (span.producer_id, span.first)
    if span.last < known.state.imported_end_offset:
        return span
    return None if key in found.ended else ends.get(key, span)
