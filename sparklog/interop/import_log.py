"""A broker's log directory becomes topics here: topics made, partitions taken, one commit a topic.

    broker dir -> checked, linked and copied, several partitions at once -> TopicEdit -> commit

A partition that is damaged is refused as a whole, and the others go on. Importing again takes what
came since. Topics that are made here keep everything (retention.ms=-1) unless told otherwise.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

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
from sparklog.interop.workers import Threads
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.edit import Done, TopicEdit
from sparklog.metadata.image import TopicImage
from sparklog.metadata.tables import segment_entries
from sparklog.model import OffsetRange, SegmentEntry, TopicDescription, TopicPartition
from sparklog.storage.files import Files
from sparklog.tasks import Workers

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """What became of one partition: the offsets it got, or why it was refused."""

    place: TopicPartition
    added: OffsetRange | None = None
    segments: int = 0
    bytes: int = 0
    torn_bytes: int = 0
    problem: SparklogError | None = None

    def as_row(self) -> dict[str, Any]:
        """Return what was taken as the JSON object of a line, or a row of a table."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "start": self.added and self.added.start,
            "end": self.added and self.added.end,
            "segments": self.segments,
            "bytes": self.bytes,
        }

    @property
    def warning(self) -> str | None:
        """What there is to say of it; None of a partition that was taken whole."""
        if self.problem is not None:
            return f"{self.place} was not imported: {self.problem}"
        if self.torn_bytes:
            return f"{self.place}: {self.torn_bytes} bytes of a batch that was cut are left out"
        return None


@dataclass(frozen=True, slots=True)
class Job:
    """One partition to take, what is known of it, and where to. Picklable."""

    source: PartitionDir
    known: Known
    files: Files
    topic: TopicDescription
    rules: ImportRules
    flush: bool

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return self.source.place


def import_log_dir(
    admin: AdminClient,
    catalog: Catalog,
    log_dir: str,
    options: ImportOptions,
    workers: Workers | None = None,
) -> list[PartitionReport]:
    """Import a stopped (or copied) broker's log directory; the reports in the order of partitions.

    `workers` take the partitions of all topics, threads unless others are given; then each topic is
    committed. Raises LogDirError (also when a broker runs on the directory), UnknownTopicError (a
    topic the directory does not have), CorruptionError for checkpoints of all of it, and the errors
    of a commit.
    """
    broker = BrokerDir(log_dir)
    broker.check_stopped()
    check_finished(broker.path)
    partitions = broker.partitions()
    if not partitions:
        raise LogDirError(f"{broker.path} has no partition: give what a broker's log.dirs names")
    sources = _chosen(partitions, options.topics)
    checkpoints = broker.offsets(LOG_START), broker.offsets(CLEANER)
    found = [one for parts in sources.values() for one in parts]
    reports = [
        PartitionReport(place=one.place, problem=one.problem) for one in found if one.problem
    ]
    jobs = [
        job
        for name, parts in sources.items()
        if (sound := [one for one in parts if one.problem is None])
        for job in _jobs(admin, catalog, name, sound, checkpoints, options)
    ]
    answers = (workers or Threads()).map(take, jobs, "import")
    done = zip(jobs, answers, strict=True)
    for _, of_topic in groupby(done, lambda pair: pair[0].topic.topic_id):
        reports += _committed(catalog, list(of_topic))
    return sorted(reports, key=lambda report: report.place)


def _jobs(
    admin: AdminClient,
    catalog: Catalog,
    name: str,
    parts: Sequence[PartitionDir],
    checkpoints: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    options: ImportOptions,
) -> Iterator[Job]:
    """The jobs of a topic, which is made if need be."""
    starts, cleaned = checkpoints
    topic = _topic(admin, catalog, name, parts, _config(parts, cleaned, options.config))
    snapshot = catalog.topic_image(topic)
    rules = ImportRules(
        now_ms=catalog.clock.now_ms(),
        check=options.check,
        link=options.link,
        durable=options.flush,
    )
    for one in parts:
        known = _what_is_known(snapshot, one.place, starts, cleaned)
        yield Job(one, known, catalog.files, topic, rules, options.flush)


def take(job: Job) -> ImportedPartition:
    """Take the files of a partition, durable if asked. Raises what `PartitionImport.run` raises."""
    found = PartitionImport(job.files, job.topic, job.source, job.rules).run(job.known)
    if job.flush:
        job.files.sync(found.paths)
    return found


def _what_is_known(
    snapshot: TopicImage,
    place: TopicPartition,
    starts: Mapping[TopicPartition, int],
    cleaned: Mapping[TopicPartition, int],
) -> Known:
    state = snapshot.partition(place.partition)
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


def _with_aborted(snapshot: TopicImage, partition: int) -> list[SegmentEntry]:
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


def _committed(
    catalog: Catalog, done: Sequence[tuple[Job, ImportedPartition | SparklogError]]
) -> list[PartitionReport]:
    """Commit what was taken of a topic, and report; nothing is if somebody else wrote to it."""
    known = {job.place.partition: job.known for job, _ in done}
    taken = {
        job.place.partition: answer for job, answer in done if isinstance(answer, ImportedPartition)
    }
    try:
        store = catalog.store(done[0][0].topic)
        store.commit(lambda snapshot: _change(snapshot, known, taken))
    except CommitConflictError as error:
        done = [(job, error) for job, _ in done]
    return [_report(job, answer) for job, answer in done]


def _report(job: Job, answer: ImportedPartition | SparklogError) -> PartitionReport:
    if isinstance(answer, SparklogError):
        return PartitionReport(place=job.place, problem=answer)
    start, end = job.known.state.imported_end_offset, answer.state.imported_end_offset
    return PartitionReport(
        place=job.place,
        added=OffsetRange(job.place.partition, start, end),
        segments=len(answer.entries),
        bytes=sum(entry.log_bytes for entry in answer.entries),
        torn_bytes=answer.torn_bytes,
    )


def _change(
    snapshot: TopicImage, known: Mapping[int, Known], taken: Mapping[int, ImportedPartition]
) -> TopicEdit | Done:
    """The commit of a topic: new segments, and old rows whose open transactions have ended."""
    for partition in taken:
        if snapshot.partition(partition) != known[partition].state:
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
    return TopicEdit(
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
    snapshot: TopicImage, partition: int, known: Known, found: ImportedPartition
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
