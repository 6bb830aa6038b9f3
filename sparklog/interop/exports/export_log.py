"""Exports topics into the log directory of a stopped broker, or into a new directory.

A broker gives each topic an id of its own, and treats a log with another id as stray. So first
create the topics on the target broker, with the same number of partitions, and stop the broker. The
export takes the ids from its partition.metadata files. When the broker starts again, it mounts the
exported files.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from sparklog.config import TopicConfig
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import LogDirError, UsageError
from sparklog.interop.broker_files.broker_dir import BrokerDir, PartitionDir
from sparklog.interop.broker_files.checkpoints import (
    CLEANER,
    HIGH_WATERMARK,
    LOG_START,
    PARTITION_METADATA,
    RECOVERY_POINT,
    encode_offsets,
    encode_topic_id,
)
from sparklog.interop.exports.commits_again import CommitBatch, commits_again
from sparklog.interop.exports.export_partition import Exported, ExportRules, PartitionExport
from sparklog.interop.exports.export_target import NEW, Targets
from sparklog.interop.staging import LIST, NAME, Staging, replace_file
from sparklog.log.names import RESERVED_TOPICS
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.model import TopicDescription, TopicPartition
from sparklog.storage.failures import os_errors

META_FILE: Final = "meta.properties"
CHECKPOINTS: Final = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of an export. `topics` None means all except RESERVED_TOPICS.

    `replace` overwrites partitions of the target. `link` makes hard links of sealed segments if
    possible, instead of copies: if the broker truncates its log, the segment here is truncated,
    too. Without `flush` segments are not synced.
    """

    topics: Sequence[str] | None = None
    replace: bool = False
    check: bool = True
    link: bool = False
    flush: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The report of one partition: the written offsets [start, end), and the written files.

    `end` is behind the ABORT markers of open transactions, and commits that are written again.
    """

    topic_partition: TopicPartition
    start: int
    end: int
    exported: Exported


def export_into(catalog: Catalog, log_dir: str, options: ExportOptions) -> list[ExportReport]:
    """Write topics into a stopped broker's log directory; return the reports in partition order.

    All files are written before the first partition is changed. Raises LogDirError for a directory
    that is no broker's, or whose broker is running; UsageError for a partition that the target does
    not have, that the topic does not have, or that has records (unless `replace`);
    UnknownTopicError; the errors of reading and writing.
    """
    broker = BrokerDir(log_dir)
    if not os.path.exists(os.path.join(broker.path, META_FILE)):
        raise LogDirError(f"{broker.path} is no broker's log directory: it has no {META_FILE}")
    with broker.stopped(is_written=True):
        # If two directories claim to be the same partition, the sound one comes last, and counts.
        known = sorted(broker.partitions(), key=lambda one: one.problem is None)
        found = {one.topic_partition: one for one in known}
        topics = _topics(catalog, options.topics)
        _check_no_others(known, topics)
        staging = Staging(broker.path, flush=options.flush)
        moving = staging.moving
        for topic in topics:
            for topic_partition in _partitions_of(topic):
                _check_target(topic_partition, found.get(topic_partition), topic)
                if not options.replace and str(topic_partition) not in moving:
                    _check_empty(topic_partition, found[topic_partition])
        return _exported(catalog, broker.path, topics, options, staging, Targets(found, moving))


def export_to(catalog: Catalog, directory: str, options: ExportOptions) -> list[ExportReport]:
    """Write topics into a directory with a broker's layout; the topics keep the ids they have here.

    The directory is created if needed; it must be empty unless `replace`. Raises LogDirError if it
    is not empty or is a broker's; UsageError if it has a partition that the topic does not have;
    UnknownTopicError; the errors of reading and writing.
    """
    path = os.path.abspath(directory)
    with os_errors("make", "", path):
        os.makedirs(path, exist_ok=True)
    if os.path.exists(os.path.join(path, META_FILE)):
        raise LogDirError(f"{directory} is a broker's log directory: give it with --into")
    topics = _topics(catalog, options.topics)
    staging = Staging(path, flush=options.flush)
    unfinished = {NAME, LIST, *CHECKPOINTS, *staging.moving} if staging.moving else {NAME, LIST}
    others = sorted(set(os.listdir(path)) - unfinished)
    if others and not options.replace:
        raise LogDirError(
            f"{directory} is not empty (it has {others[0]}): give another, or --replace"
        )
    _check_no_others(BrokerDir(path).partitions(), topics)
    return _exported(catalog, path, topics, options, staging)


_Job = tuple[TopicImage, TopicPartition]
"""A partition to export, and its topic."""


def _topics(catalog: Catalog, names: Sequence[str] | None) -> list[TopicDescription]:
    if names is None:
        return [one for name, one in catalog.topics().items() if name not in RESERVED_TOPICS]
    return catalog.named(dict.fromkeys(names))


def _partitions_of(topic: TopicDescription) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(topic.num_partitions)]


def _check_no_others(found: Iterable[PartitionDir], topics: Iterable[TopicDescription]) -> None:
    """Raise UsageError for a directory of an exported topic's partition that the topic lacks.

    It would stay beside the new ones, with the records of another topic. It is not removed: an
    export deletes nothing but what it replaces.
    """
    counts = {topic.name: topic.num_partitions for topic in topics}
    for one in found:
        topic, number = one.topic_partition
        if number >= counts.get(topic, number + 1):
            raise UsageError(
                f"{one.path}: topic {topic!r} has no partition {number}, allowed are 0 to "
                f"{counts[topic] - 1}: remove the directory, or give another target"
            )


def _check_target(
    topic_partition: TopicPartition, found: PartitionDir | None, topic: TopicDescription
) -> None:
    if found is None or found.topic_id is None:
        raise UsageError(
            f"the broker has no partition {topic_partition}: start it, create topic "
            f"{topic.name!r} with {topic.num_partitions} partitions, and stop it"
        )


def _check_empty(topic_partition: TopicPartition, found: PartitionDir) -> None:
    if any(segment.log_bytes or segment.base_offset for segment in found.segments()):
        raise UsageError(
            f"partition {topic_partition} of the broker holds records: --replace deletes them"
        )


def _exported(
    catalog: Catalog,
    path: str,
    topics: Sequence[TopicDescription],
    options: ExportOptions,
    staging: Staging,
    targets: Targets | None = None,
) -> list[ExportReport]:
    """Export; `targets` are a broker's partitions, None for a new directory."""
    image = catalog.image(*topics)
    jobs = [
        (image.topics[topic.topic_id], topic_partition)
        for topic in topics
        for topic_partition in _partitions_of(topic)
    ]

    def export(job: _Job) -> ExportReport:
        topic, topic_partition = job
        if targets is None:
            staging.folder(topic_partition).write_new(
                PARTITION_METADATA, encode_topic_id(topic.description.topic_id)
            )
        return _partition(catalog, job, options, staging, targets)

    places = [topic_partition for _, topic_partition in jobs]
    staging.begin(places)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            reports = list(pool.map(export, jobs))
        staging.move({one: "" if targets is None else targets.of(one).line for one in places})
    except BaseException:
        staging.give_up()
        raise
    logs = {place: topic.partition(place.partition) for topic, place in jobs}
    _write_checkpoints(path, logs, {report.topic_partition: report.end for report in reports})
    staging.end()
    return reports


def _partition(
    catalog: Catalog,
    job: _Job,
    options: ExportOptions,
    staging: Staging,
    targets: Targets | None,
) -> ExportReport:
    image, topic_partition = job
    topic, number = image.description, topic_partition.partition
    log, target = image.partition(number), staging.folder(topic_partition)
    config = TopicConfig.parse(topic.configs)
    rules = ExportRules(
        segment_bytes=config.segment_bytes,
        segment_ms=config.max_segment_ms,
        check=options.check,
        link=options.link,
        durable=options.flush,
        target=NEW if targets is None else targets.of(topic_partition),
    )
    commits: Sequence[CommitBatch] = ()
    if targets is not None and topic.name == OFFSETS_TOPIC:
        reader = TopicReader(catalog.files, topic, image)
        commits = commits_again(reader, number, targets.epoch_of, catalog.clock.now_ms())
    export = PartitionExport(catalog.files, topic_directory(topic), target, rules)
    done = export.run(log, commits)
    if options.flush:
        target.sync(done.paths)
    return ExportReport(
        topic_partition=topic_partition,
        start=log.log_start_offset,
        end=done.end_offset,
        exported=done,
    )


def _write_checkpoints(
    path: str,
    logs: Mapping[TopicPartition, PartitionLog],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Write the partitions into the broker's checkpoints; entries of other topics stay."""
    topics = {topic_partition.topic for topic_partition in logs}
    broker = BrokerDir(path)
    values = {
        RECOVERY_POINT: ends,
        HIGH_WATERMARK: ends,
        LOG_START: {
            topic_partition: log.log_start_offset
            for topic_partition, log in logs.items()
            if log.log_start_offset
        },
        CLEANER: {
            topic_partition: log.cleaner_offset
            for topic_partition, log in logs.items()
            if log.cleaner_offset
        },
    }
    for name in CHECKPOINTS:
        offsets = broker.offsets(name).items()
        kept = {key: at for key, at in offsets if key.topic not in topics}
        with os_errors("write", name, path):
            replace_file(os.path.join(path, name), encode_offsets({**kept, **values[name]}))
