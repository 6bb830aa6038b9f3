"""Imports brokers' log directories: creates topics, takes partitions, and commits all at once.

    broker dirs -> checked, linked and copied, several partitions at once -> TopicEdits -> commit

A damaged partition is refused as a whole; the others are imported. A second import takes the
batches that were added since the first. A topic that is created gets retention.ms=-1, unless this
config is given. No broker can start on the directories meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import (
    CommitConflictError,
    InvalidOptionError,
    LogDirError,
    SparklogError,
    UnknownTopicError,
)
from sparklog.fleet import Fleet, LocalFleet
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.broker_files.checkpoints import CLEANER, LOG_START
from sparklog.interop.imports.broker_dirs import BrokerDirs
from sparklog.interop.imports.import_partition import (
    ImportedPartition,
    ImportRules,
    Known,
    PartitionImport,
)
from sparklog.interop.imports.offsets_topic import check_adoptable, check_settled, check_whole
from sparklog.interop.staging import check_finished
from sparklog.interop.transactions import Span, spans_of, with_spans
from sparklog.log.names import RESERVED_TOPICS
from sparklog.metadata.catalog import Catalog, Write, topic_of
from sparklog.metadata.state.edit import Done, TopicEdit
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.model import OffsetRange, SegmentEntry, TopicDescription, TopicPartition
from sparklog.storage.files import Files

IMPORT: Final = "IMPORT"
KEEP: Final = {"retention.ms": "-1"}
COMPACT: Final = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import. `topics` None means all except RESERVED_TOPICS.

    `check` reads every byte, `link` makes hard links if possible, `flush` syncs the files.
    """

    topics: Sequence[str] | None = None
    check: bool = True
    link: bool = True
    flush: bool = True
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """The outcome of one partition: its new offsets, or the `problem` for which it was refused.

    `notes` are facts that readers of the partition should know.
    """

    topic_partition: TopicPartition
    added: OffsetRange | None = None
    segments: int = 0
    bytes: int = 0
    torn_bytes: int = 0
    notes: tuple[str, ...] = ()
    problem: SparklogError | None = None

    def as_row(self) -> dict[str, Any]:
        """Return the imported offsets, segments and bytes as a JSON object, or a row of a table."""
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "start": self.added and self.added.start,
            "end": self.added and self.added.end,
            "segments": self.segments,
            "bytes": self.bytes,
        }

    @property
    def warning(self) -> str | None:
        """The warning about the partition; None without a problem, torn bytes and notes."""
        if self.problem is not None:
            return f"{self.topic_partition} was not imported: {self.problem}"
        torn = f"{self.torn_bytes} bytes behind the last whole batch are left out"
        notes = [*([torn] if self.torn_bytes else []), *self.notes]
        return f"{self.topic_partition}: {'; '.join(notes)}" if notes else None


@dataclass(frozen=True, slots=True)
class ImportWork:
    """One partition to import: its directory, its known state, and its topic. Picklable."""

    source: PartitionDir
    known: Known
    files: Files
    topic: TopicDescription
    rules: ImportRules
    flush: bool

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return self.source.topic_partition


def import_log_dirs(
    admin: AdminClient,
    catalog: Catalog,
    log_dirs: Sequence[str],
    options: ImportOptions,
    fleet: Fleet | None = None,
) -> list[PartitionReport]:
    """Import log directories of stopped brokers, or copies; return the reports in partition order.

    Of several replicas of a partition, `BrokerDirs` takes one. `fleet` imports all partitions, by
    default with a thread for each core; then one commit makes them visible. The brokers' locks are
    held until then. Raises LogDirError (also if a broker is running on a directory),
    UnknownTopicError (no directory has the topic), InvalidOptionError (a topic that cannot be
    imported), CorruptionError for a checkpoint of a log directory, and the errors of a commit.
    """
    broker = BrokerDirs(log_dirs)
    with broker.stopped():
        return _imported(admin, catalog, broker, options, fleet or LocalFleet(threads=None))


def _imported(
    admin: AdminClient,
    catalog: Catalog,
    broker: BrokerDirs,
    options: ImportOptions,
    fleet: Fleet,
) -> list[PartitionReport]:
    for path in broker.paths:
        check_finished(path)
    partitions = broker.partitions(options.topics)
    chosen = _chosen(partitions, options.topics) if partitions else []
    if not chosen:
        whose = " but those of the broker's own topics" if partitions else ""
        raise LogDirError(f"{broker} has no partition{whose}: give what a broker's log.dirs names")
    reports = [
        PartitionReport(topic_partition=one.topic_partition, problem=one.problem)
        for one in chosen
        if one.problem
    ]
    sound: dict[str, list[PartitionDir]] = {}
    for one in chosen:
        if one.problem is None:
            sound.setdefault(one.topic_partition.topic, []).append(one)
    if sound:
        works = _works(admin, catalog, broker, sound, options)
        answers = fleet.map(take, works, "import")
        reports += _committed(catalog, broker, list(zip(works, answers, strict=True)))
    return sorted(reports, key=lambda report: report.topic_partition)


def _works(
    admin: AdminClient,
    catalog: Catalog,
    broker: BrokerDirs,
    sources: Mapping[str, Sequence[PartitionDir]],
    options: ImportOptions,
) -> list[ImportWork]:
    """Return the work for each partition; create missing topics, and add missing partitions."""
    all_parts = [one for parts in sources.values() for one in parts]
    starts, cleaned = broker.offsets(LOG_START, all_parts), broker.offsets(CLEANER, all_parts)
    topics = _topics(admin, catalog, sources, cleaned, options.config)
    rules = ImportRules(
        now_ms=catalog.clock.now_ms(),
        check=options.check,
        link=options.link,
        durable=options.flush,
    )
    works, opened = [], catalog.image(*topics.values())
    for name, parts in sources.items():
        image = topic_of(opened, topics[name])
        for one in parts:
            log = image.partition(one.topic_partition.partition)
            known = Known(
                state=log.state,
                newest=log.segments.entry(len(log.segments) - 1) if len(log.segments) else None,
                transactions=log.transactions,
                epochs=log.epochs,
                producers=tuple(log.producers.values()),
                log_start=starts.get(one.topic_partition),
                cleaner_offset=cleaned.get(one.topic_partition, 0),
            )
            works.append(ImportWork(one, known, catalog.files, topics[name], rules, options.flush))
    return works


def take(work: ImportWork) -> ImportedPartition:
    """Take the files of a partition; sync them if `flush`.

    Raises as `PartitionImport.run` and `check_settled`.
    """
    found = PartitionImport(work.files, work.topic, work.source, work.rules).run(work.known)
    check_settled(work.topic, found.transactions)
    if work.flush:
        work.files.sync(found.paths)
    return found


def _chosen(partitions: Sequence[PartitionDir], topics: Sequence[str] | None) -> list[PartitionDir]:
    """Return the directories of the requested topics.

    Raises UnknownTopicError, InvalidOptionError, and as `check_whole`.
    """
    if topics is None:
        return [one for one in partitions if one.topic_partition.topic not in RESERVED_TOPICS]
    found = {one.topic_partition.topic for one in partitions}
    missing = [name for name in topics if name not in found]
    if missing:
        raise UnknownTopicError(
            f"there is no partition of {missing[0]!r}; the topics are {', '.join(sorted(found))}",
            topic=missing[0],
        )
    internal = [name for name in topics if name in RESERVED_TOPICS - {OFFSETS_TOPIC}]
    if internal:
        raise InvalidOptionError(
            f"{internal[0]!r} is internal to the broker: it cannot be imported", option="topic"
        )
    chosen = [one for one in partitions if one.topic_partition.topic in topics]
    check_whole([one for one in chosen if one.topic_partition.topic == OFFSETS_TOPIC])
    return chosen


def _config(
    parts: Sequence[PartitionDir],
    cleaned: Mapping[TopicPartition, int],
    given: Mapping[str, str],
) -> dict[str, str]:
    """Return the configs of a new topic. A log directory does not have the broker's configs."""
    is_compacted = any(one.topic_partition in cleaned for one in parts)
    return {**KEEP, **(COMPACT if is_compacted else {}), **given}


def _topics(
    admin: AdminClient,
    catalog: Catalog,
    sources: Mapping[str, Sequence[PartitionDir]],
    cleaned: Mapping[TopicPartition, int],
    given: Mapping[str, str],
) -> Mapping[str, TopicDescription]:
    """Return the topics by name; create missing topics, and add missing partitions."""
    counts = {
        name: max(one.topic_partition.partition for one in parts) + 1
        for name, parts in sources.items()
    }
    groups = counts.pop(OFFSETS_TOPIC, None)
    known = _known(catalog)
    if groups is not None:
        check_adoptable(known.get(OFFSETS_TOPIC), groups, given)
    new = [
        NewTopic(name, count, config=_config(sources[name], cleaned, given))
        for name, count in counts.items()
        if name not in known
    ]
    grown = {
        name: count
        for name, count in counts.items()
        if name in known and known[name].num_partitions < count
    }
    if new:
        admin.create_topics(new)
    if grown:
        admin.create_partitions(grown)
    if groups is not None:
        admin.create_log_dir()
        check_adoptable(offsets_topic(catalog, catalog.clock, groups), groups, given)
    return {topic.name: topic for topic in catalog.named(sources)}


def _known(catalog: Catalog) -> Mapping[str, TopicDescription]:
    """Return the topics that exist; {} if there is no log dir yet."""
    try:
        return catalog.topics()
    except LogDirError:
        return {}


Taken = tuple[ImportWork, ImportedPartition]


def _committed(
    catalog: Catalog,
    broker: BrokerDirs,
    done: Sequence[tuple[ImportWork, ImportedPartition | SparklogError]],
) -> list[PartitionReport]:
    """Commit the new segments; return the reports.

    A partition to which another process has written meanwhile is refused.
    """
    taken: dict[str, list[Taken]] = {}
    for work, answer in done:
        if isinstance(answer, ImportedPartition):
            taken.setdefault(work.topic.topic_id, []).append((work, answer))
    refused: dict[TopicPartition, SparklogError] = {}
    writes = [
        Write(topic=parts[0][0].topic, plan=partial(_planned, taken=parts, refused=refused))
        for parts in taken.values()
    ]
    found = (answer for parts in taken.values() for _, answer in parts)
    catalog.commit_all(
        writes,
        operation=IMPORT,
        parameters={"source": str(broker)},
        next_producer_id=max((answer.next_producer_id for answer in found), default=None),
    )
    return [_report(work, refused.get(work.topic_partition, answer)) for work, answer in done]


def _report(work: ImportWork, answer: ImportedPartition | SparklogError) -> PartitionReport:
    if isinstance(answer, SparklogError):
        return PartitionReport(topic_partition=work.topic_partition, problem=answer)
    start, end = work.known.state.imported_end_offset, answer.state.imported_end_offset
    return PartitionReport(
        topic_partition=work.topic_partition,
        added=OffsetRange(work.topic_partition.partition, start, end),
        segments=len(answer.entries),
        bytes=sum(entry.log_bytes for entry in answer.entries),
        torn_bytes=answer.torn_bytes,
        notes=answer.notes,
    )


def _planned(
    topic: TopicImage, taken: Sequence[Taken], refused: dict[TopicPartition, SparklogError]
) -> TopicEdit | Done:
    """Return the edit of a topic: new segments, transactions, epochs, producers, aborted ranges.

    `refused` gets an error for each partition that has changed since its files were taken.
    """
    grown: dict[int, ImportedPartition] = {}
    for work, found in taken:
        log, known = topic.partition(work.topic_partition.partition), work.known.state
        refused.pop(work.topic_partition, None)
        if log.state != known or log.transactions != work.known.transactions:
            refused[work.topic_partition] = CommitConflictError(
                f"partition {work.topic_partition.partition}: another process wrote to it during "
                f"the import"
            )
        elif found.state.grown(known) != known:
            grown[work.topic_partition.partition] = found
    if not grown:
        return Done()
    return TopicEdit(
        segments=[entry for found in grown.values() for entry in found.entries],
        partitions={partition: found.state for partition, found in grown.items()},
        transactions={partition: found.transactions for partition, found in grown.items()},
        epochs={partition: found.epochs for partition, found in grown.items()},
        producers={n: found.producers for n, found in grown.items() if found.producers},
        replace=[
            entry
            for partition, found in grown.items()
            for entry in _settled(topic.partition(partition), found.aborted)
        ],
        allow_gaps=True,
    )


def _settled(log: PartitionLog, aborted: Iterable[Span]) -> list[SegmentEntry]:
    """Return new rows of segments that are in the log already, with newly aborted transactions."""
    spans = [span for span in aborted if span.first < log.log_end_offset]
    if not spans:
        return []
    entries = log.entries(min(span.first for span in spans))
    settled = [with_spans(entry, [*spans_of(entry), *spans]) for entry in entries]
    return [new for old, new in zip(entries, settled, strict=True) if new != old]
