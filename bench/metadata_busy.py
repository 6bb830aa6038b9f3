"""The metadata log at work: edits of jobs beside produces, and an hour of entries.

edits of jobs     on a log dir of a million segments, while another process commits 20 produces
                  a second: retention, merge and compaction as edits alone, without their data.
                  That process also takes the floor's steps, in another directory, between commits
an hour           an hour of entries at 100 a second, committed as fast as they go, with the
                  folds that the housekeeping of every process makes
many partitions   2 KB to each of 1,000 partitions, as a task writes and commits them
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.figures import Bar, Figure, elapsed_s
from bench.metadata import commit_floor
from bench.metadata_scale import (
    PARTITIONS,
    RECORDS,
    SEGMENTS,
    TOPICS,
    measured_alone,
    write_large,
)
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.garbage import collect_as_a_service, seldom_collected
from sparklog.log.names import CLUSTER_METADATA, LOG_SUFFIX, segment_name, uuid7
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.edit import Edit, PartitionState, TopicEdit
from sparklog.metadata.state.image import Image
from sparklog.metadata.upkeep.fold import fold, is_due
from sparklog.model import SegmentEntry
from sparklog.record.rows import RecordColumns
from sparklog.storage.open import open_files

PER_SECOND = 20
SECONDS = 20
PER_HOUR = 360_000
MANY = 1_000
RECORDS_OF_2_KB = 20
REMOVED = 20
"""Segments of a partition that an edit of retention removes."""
MERGED = 4
"""Segments that an edit of a merge joins into one."""
OPENINGS = 3
MS = 1e3

_PRODUCER = """
import json, sys
from pathlib import Path
from bench.metadata_busy import produce
print(json.dumps(produce(Path(sys.argv[1]), float(sys.argv[2]))))
"""


class Produced(NamedTuple):
    """The seconds that each commit took, and each floor."""

    commits: list[float]
    floors: list[float]


def run(settings: Settings) -> list[Figure]:
    """Jobs beside produces, and an hour."""
    folder = settings.directory / "metadata-busy"
    return [
        *_beside_produces(folder, settings.quick),
        *_hour(folder, settings.quick),
        *_many_partitions(folder, 1 if settings.quick else settings.rounds),
    ]


def _beside_produces(folder: Path, is_quick: bool) -> list[Figure]:
    write_large(folder, TOPICS, SEGMENTS)
    seconds = SECONDS / 4 if is_quick else SECONDS
    alone = _told(_producer(folder, seconds))
    beside, tries = _jobs_beside(folder, seconds)
    shutil.rmtree(folder)
    shutil.rmtree(_floors(folder))
    group = f"metadata log: {PER_SECOND} produces/s beside edits of jobs, {SEGMENTS:,} segments"
    return [
        Figure(group, "floor without jobs, p99", _p99(alone.floors), "ms"),
        Figure(
            group, "a commit of a produce without jobs, median", median(alone.commits) * MS, "ms"
        ),
        Figure(group, "a commit of a produce without jobs, p99", _p99(alone.commits), "ms"),
        Figure(group, "floor, p99", _p99(beside.floors), "ms"),
        Figure(group, "a commit of a produce, median", median(beside.commits) * MS, "ms"),
        Figure(group, "a commit of a produce, p99", _p99(beside.commits), "ms", Bar(most=5)),
        Figure(group, "edits of jobs", len(tries) / seconds, "edits/s"),
        Figure(group, "tries of one of them, at most", max(tries), "", Bar(most=10)),
    ]


def _hour(folder: Path, is_quick: bool) -> list[Figure]:
    """Commit the entries of an hour, none of them cleaned; open the log dir again."""
    (topic,) = write_large(folder, 1, PARTITIONS)
    files = open_files(str(folder))
    log = MetadataLog(files, SystemClock(), flush=False, after_commit=_fold_if_due)
    count = PER_HOUR // 20 if is_quick else PER_HOUR
    begun = time.perf_counter()
    for number in range(count):
        log.commit(_produced(topic, number % PARTITIONS), [topic])
    made = time.perf_counter() - begun
    found = list(files.list(CLUSTER_METADATA, recursive=True))
    os.sync()  # else the disk still writes: the entries of an hour would be on it long before
    opened = [measured_alone("open all", folder).seconds for _ in range(OPENINGS)]
    shutil.rmtree(folder)
    group = f"metadata log: {count:,} entries, none cleaned"
    return [
        Figure(group, "committed, with folds", count / made, "entries/s"),
        Figure(group, "files", len(found), ""),
        Figure(group, "disk", sum(one.bytes for one in found) / 1e6, "MB"),
        Figure.of_rounds(group, "opening from the last fold", opened, "s", Bar(most=0.5)),
    ]


def _fold_if_due(log: MetadataLog) -> None:
    if is_due(log.last_image, log.bytes_behind):
        fold(log)


def _many_partitions(folder: Path, rounds: int) -> list[Figure]:
    AdminClient(folder).create_topics([NewTopic("t", MANY, {"retention.ms": "-1"})])
    count = MANY * RECORDS_OF_2_KB
    rows = RecordColumns(
        key=pa.nulls(count, pa.binary()),
        value=pa.array([b"x" * 100] * count),
        timestamp=np.full(count, SystemClock().now_ms()),
    )
    partitions = pa.array(np.arange(count, dtype=np.int32) % MANY)
    seconds = []
    for _ in range(rounds + 1):  # the first compiles and loads
        begun = time.perf_counter()
        catalog = Catalog(open_files(str(folder)))
        plan = plan_write(catalog, "t", WriteOptions())
        writer = TopicWriter(catalog.files, plan, SystemClock(), seed=0)
        writer.write(rows, partitions)
        commit_write(catalog, plan, writer.close())
        seconds.append(time.perf_counter() - begun)
    shutil.rmtree(folder)
    group = f"writing 2 KB to each of {MANY:,} partitions"
    return [Figure.of_rounds(group, "planned, written, committed", seconds[1:], "s")]


def _p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[98] * MS


def _producer(folder: Path, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _PRODUCER, str(folder), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _told(producer: "subprocess.Popen[str]") -> Produced:
    return Produced(*json.loads(producer.communicate()[0]))


def produce(folder: Path, seconds: float) -> Produced:
    """Commit at an even pace, as a service does; take the floor's steps between two commits."""
    log = MetadataLog(open_files(str(folder)), SystemClock())
    topics = list(log.image().topics)
    log.image(topics)
    collect_as_a_service()
    log.image()
    done = Produced([], [])
    floor = partial(commit_floor, _floors(folder))
    begun = time.perf_counter()
    for number in range(int(seconds * PER_SECOND)):
        topic = topics[number % len(topics)]
        _sleep_until(begun + number / PER_SECOND)
        plan = _produced(topic, number % PARTITIONS)
        done.commits.append(elapsed_s(partial(log.commit, plan, [topic])))
        _sleep_until(begun + (number + 0.5) / PER_SECOND)
        done.floors.append(elapsed_s(floor))
    return done


def _floors(folder: Path) -> Path:
    """Return the directory for the floor's files, which is none of the log dir's."""
    found = folder.with_name(f"{folder.name}-floors")
    found.mkdir(exist_ok=True)
    return found


def _sleep_until(when: float) -> None:
    time.sleep(max(0.0, when - time.perf_counter()))


def _produced(topic: str, partition: int) -> Callable[[Image], Edit]:
    path = _path(partition, 0)

    def plan(image: Image) -> Edit:
        end = image.topics[topic].partition(partition).log_end_offset
        added = _segment(partition, end, end + RECORDS, path)
        return Edit(operation="PRODUCE", topics={topic: TopicEdit(segments=[added])})

    return plan


def _jobs_beside(folder: Path, seconds: float) -> tuple[Produced, list[int]]:
    """Commit edits of jobs while a producer runs; return its seconds, and the tries of each."""
    log = MetadataLog(open_files(str(folder)), SystemClock())
    topics = list(log.image().topics)
    log.image(topics)
    producer = _producer(folder, seconds)
    tries: list[int] = []
    with seldom_collected():  # as every run of a job
        while producer.poll() is None:
            topic = topics[len(tries) // 3 % len(topics)]
            job = (_retention, _merge, _compaction)[len(tries) % 3]
            tries.append(_tries(log, topic, job))
    return _told(producer), tries


def _tries(log: MetadataLog, topic: str, job: Callable[[Image, str], TopicEdit]) -> int:
    count = 0

    def plan(image: Image) -> Edit:
        nonlocal count
        count += 1
        return Edit(operation="JOB", topics={topic: job(image, topic)})

    log.commit(plan, [topic], patient=True)
    return count


def _retention(image: Image, topic: str) -> TopicEdit:
    logs = [image.topics[topic].partition(number).entries() for number in range(PARTITIONS)]
    keys = [entry.key for entries in logs for entry in entries[:REMOVED]]
    starts = {
        number: PartitionState(entries[REMOVED].base_offset) for number, entries in enumerate(logs)
    }
    return TopicEdit(remove=keys, removed_ms=SystemClock().now_ms(), partitions=starts)


def _merge(image: Image, topic: str) -> TopicEdit:
    return _replaced(image, topic, MERGED)


def _compaction(image: Image, topic: str) -> TopicEdit:
    return _replaced(image, topic, 1)


def _replaced(image: Image, topic: str, count: int) -> TopicEdit:
    """Remove the first segments of every partition and put one in their place."""
    added, removed = [], []
    for number in range(PARTITIONS):
        old = image.topics[topic].partition(number).entries()[:count]
        start, end = old[0].base_offset, old[-1].next_offset
        added.append(_segment(number, start, end, _path(number, start)))
        removed += [entry.key for entry in old]
    return TopicEdit(segments=added, remove=removed, removed_ms=SystemClock().now_ms())


def _path(partition: int, base_offset: int) -> str:
    uuid = uuid7(SystemClock().now_ms(), os.urandom(10))
    return f"t-{partition}/{segment_name(base_offset, uuid, LOG_SUFFIX)}"


def _segment(partition: int, start: int, end: int, path: str) -> SegmentEntry:
    return SegmentEntry(
        partition=partition,
        base_offset=start,
        next_offset=end,
        file_base_offset=start,
        log_path=path,
        log_bytes=100_000,
        created_ms=SystemClock().now_ms(),
    )
