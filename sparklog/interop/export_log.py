"""Topics as a broker's log directory: into that of a stopped broker, or a new one for its files.

A broker gives a topic its own id and calls a log with another one stray. So the topics are created
on the target first, with as many partitions; it is stopped; the ids are taken from its
partition.metadata; it is started again and mounts what it finds.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sparklog.errors import LogDirError, UsageError
from sparklog.interop.broker_dir import BrokerDir, PartitionDir
from sparklog.interop.checkpoints import (
    CLEANER,
    HIGH_WATERMARK,
    LOG_START,
    PARTITION_METADATA,
    RECOVERY_POINT,
    encode_offsets,
    encode_topic_id,
)
from sparklog.interop.export_partition import Exported, PartitionExport
from sparklog.log.names import partition_dir
from sparklog.manifest.catalog import Catalog, topic_directory
from sparklog.manifest.store import PartitionState, Snapshot
from sparklog.model import TopicDescription, TopicPartition
from sparklog.storage.local import LocalFiles

LOCK_FILE: Final = ".lock"
CHECKPOINTS: Final = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What to export. `topics` None means all; `replace` gives up what the target holds.

    Without `flush` the files of segments are not synced.
    """

    topics: Sequence[str] | None = None
    replace: bool = False
    check: bool = True
    flush: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What was written of one partition: the offsets [start, end), and of how many segments."""

    place: TopicPartition
    start: int
    end: int
    exported: Exported


def export_into(catalog: Catalog, log_dir: str, options: ExportOptions) -> list[ExportReport]:
    """Put topics into a stopped broker's log directory; reports in the order of partitions.

    Nothing is written unless every partition may be. Raises LogDirError for a directory that is no
    broker's, or whose broker runs; UsageError for a partition that the target does not have, or
    that holds records (unless `replace`); UnknownTopicError; the errors of reading and writing.
    """
    broker = BrokerDir(log_dir)
    with _stopped(broker.path):
        found = {one.place: one for one in broker.partitions()}
        topics = _topics(catalog, options.topics)
        for topic in topics:
            for place in _places(topic):
                _check_target(place, found.get(place), topic, options)
        return _exported(catalog, broker.path, topics, options)


def export_to(catalog: Catalog, directory: str, options: ExportOptions) -> list[ExportReport]:
    """Write topics to a directory as a broker would have them, under the ids they have here.

    The directory is made; it must be empty unless `replace`. Raises LogDirError and the rest above.
    """
    path = os.path.abspath(directory)
    os.makedirs(path, exist_ok=True)
    if os.listdir(path) and not options.replace:
        raise LogDirError(f"{directory} is not empty: give another, or --replace")
    topics = _topics(catalog, options.topics)
    for topic in topics:
        for place in _places(topic):
            os.makedirs(os.path.join(path, str(place)), exist_ok=True)
            metadata = os.path.join(path, str(place), PARTITION_METADATA)
            with open(metadata, "wb") as file:
                file.write(encode_topic_id(topic.topic_id))
    return _exported(catalog, path, topics, options)


def _topics(catalog: Catalog, names: Sequence[str] | None) -> list[TopicDescription]:
    if names is None:
        return list(catalog.topics().values())
    return [catalog.topic(name) for name in dict.fromkeys(names)]


def _places(topic: TopicDescription) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(topic.num_partitions)]


@contextmanager
def _stopped(path: str) -> Iterator[None]:
    """Hold the lock that a broker holds while it runs."""
    if not os.path.exists(os.path.join(path, "meta.properties")):
        raise LogDirError(f"{path} is no broker's log directory: it has no meta.properties")
    with open(os.path.join(path, LOCK_FILE), "ab") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LogDirError(f"{path} is in use: stop its broker first") from None
        yield


def _check_target(
    place: TopicPartition,
    found: PartitionDir | None,
    topic: TopicDescription,
    options: ExportOptions,
) -> None:
    if found is None or found.topic_id is None:
        raise UsageError(
            f"the broker has no partition {place}: start it, create topic {topic.name!r} with "
            f"{topic.num_partitions} partitions, and stop it"
        )
    holds = [segment for segment in found.segments() if segment.log_bytes or segment.base_offset]
    if holds and not options.replace:
        raise UsageError(f"partition {place} of the broker holds records: --replace gives them up")


def _exported(
    catalog: Catalog, path: str, topics: Sequence[TopicDescription], options: ExportOptions
) -> list[ExportReport]:
    snapshots = {topic.name: catalog.store(topic).snapshot() for topic in topics}
    jobs = [(topic, place) for topic in topics for place in _places(topic)]

    def export(job: tuple[TopicDescription, TopicPartition]) -> ExportReport:
        topic, place = job
        return _partition(catalog, path, topic, place, snapshots[topic.name], options)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(export, jobs))
    states = {place: snapshots[topic.name].state(place.partition) for topic, place in jobs}
    _write_checkpoints(path, states)
    return reports


def _partition(
    catalog: Catalog,
    path: str,
    topic: TopicDescription,
    place: TopicPartition,
    snapshot: Snapshot,
    options: ExportOptions,
) -> ExportReport:
    directory = os.path.join(path, partition_dir(place.topic, place.partition))
    for name in os.listdir(directory):
        if name != PARTITION_METADATA:
            os.unlink(os.path.join(directory, name))
    state = snapshot.state(place.partition)
    target = LocalFiles(directory)
    segments = snapshot.segments(place.partition)
    entries = [segments.entry(slot) for slot in segments.range(state.log_start_offset, 2**63 - 1)]
    done = PartitionExport(catalog.files, topic_directory(topic), target, check=options.check).run(
        entries, state
    )
    if options.flush:
        target.sync(done.paths)
    return ExportReport(
        place=place, start=state.log_start_offset, end=state.log_end_offset, exported=done
    )


def _write_checkpoints(path: str, states: Mapping[TopicPartition, PartitionState]) -> None:
    """Enter the partitions into the broker's checkpoints; what others have there stays."""
    broker = BrokerDir(path)
    values = {
        RECOVERY_POINT: {place: state.log_end_offset for place, state in states.items()},
        HIGH_WATERMARK: {place: state.log_end_offset for place, state in states.items()},
        LOG_START: {
            place: state.log_start_offset
            for place, state in states.items()
            if state.log_start_offset
        },
        CLEANER: {
            place: state.cleaner_offset for place, state in states.items() if state.cleaner_offset
        },
    }
    for name in CHECKPOINTS:
        kept = {key: at for key, at in broker.offsets(name).items() if key not in states}
        _replace(os.path.join(path, name), encode_offsets(kept | values[name]))


def _replace(path: str, data: bytes) -> None:
    """Write a file aside, durably, and put it in its place (CheckpointFile.write)."""
    aside = f"{path}.tmp"
    with open(aside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
