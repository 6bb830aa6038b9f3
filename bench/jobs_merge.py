"""Building indexes, checking and merging: one core, the log in the page cache, no Spark.

The floor of merging is a copy of the same files, each synced. Rounds are interleaved. The files of
a measurement are deleted before the next one, because memory that was freed long ago costs more.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.indexes import indexes_of
from sparklog.log.merge import Group
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.maintenance.merging.merged import MergeWork, merged
from sparklog.maintenance.verification.verified import VerifyWork, verified
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.record.rows import RecordColumns
from sparklog.storage import open_files

GROUP = "jobs: one core, log in the page cache"
SEGMENTS = 16
ROWS = 100_000
INTERVAL_BYTES = 4096
OF_A_COPY = 0.75


def run(settings: Settings) -> list[Figure]:
    """GB/s of indexing and checking; MB/s of merging beside a plain synced copy."""
    folder = settings.directory / "merge"
    rounds = 1 if settings.quick else max(settings.rounds, 3)
    try:
        return list(_figures(Log(folder, settings.records // 2), rounds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Log:
    """A topic of one partition whose segments are to become one."""

    def __init__(self, folder: Path, records: int) -> None:
        config = {"segment.bytes": 2**31 - 1, "retention.ms": -1}
        AdminClient(str(folder)).create_topics([NewTopic("t", 1, config)])
        self.catalog = Catalog(open_files(str(folder)))
        self.topic = self.catalog.topic("t")
        self.folder = folder / topic_directory(self.topic)
        for _ in range(SEGMENTS):
            self._produce(max(1, records // SEGMENTS // ROWS))
        image = self.catalog.topic_image(self.topic)
        self.group: Group = tuple(image.segments(0))
        self.bytes = sum(entry.log_bytes for entry in self.group)

    def _produce(self, batches: int) -> None:
        plan = plan_write(self.catalog, "t", WriteOptions())
        writer = TopicWriter(self.catalog.files, plan, SystemClock(), seed=0)
        for _ in range(batches):
            writer.write(
                RecordColumns(
                    key=pa.nulls(ROWS, pa.binary()),
                    value=pa.array([b"x" * 100] * ROWS, pa.binary()),
                    timestamp=np.full(ROWS, plan.now_ms, np.int64),
                )
            )
        commit_write(self.catalog, plan, writer.close())

    def index(self) -> list[str]:
        """Compute the indexes of every segment; checksums are verified."""
        for entry in self.group:
            indexes_of(self.catalog.files, topic_directory(self.topic), entry, INTERVAL_BYTES)
        return []

    def check(self) -> list[str]:
        """Compare every segment with its row and its indexes."""
        for entry in self.group:
            found = verified(
                VerifyWork(
                    files=self.catalog.files,
                    topic=self.topic,
                    entry=entry,
                    index_interval_bytes=INTERVAL_BYTES,
                )
            )
            assert not found.log_problems + found.index_problems
        return []

    def copy(self) -> list[str]:
        """Copy the logs, each synced; return the copies."""
        copies = []
        for entry in self.group:
            target = f"{self.folder}/{entry.log_path}.copy"
            shutil.copyfile(f"{self.folder}/{entry.log_path}", target)
            descriptor = os.open(target, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            copies.append(target)
        return copies

    def merge(self) -> list[str]:
        """Merge the logs into one segment, synced; return its files."""
        row = merged(
            MergeWork(
                files=self.catalog.files,
                clock=SystemClock(),
                topic=self.topic,
                group=self.group,
                index_interval_bytes=INTERVAL_BYTES,
            )
        )
        paths = (row.log_path, row.index_path, row.time_index_path)
        return [f"{self.folder}/{path}" for path in paths if path is not None]


def _figures(log: Log, rounds: int) -> Iterator[Figure]:
    kinds = {"index": log.index, "verify": log.check, "copy": log.copy, "merge": log.merge}
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + 1):
        for name, call in kinds.items():
            seconds = _seconds(call)
            if number:  # the first warms up
                times[name].append(seconds)
    speed = {name: [log.bytes / each / 1e6 for each in times[name]] for name in kinds}
    for name, title in (("index", "build_index, checksums verified"), ("verify", "verify")):
        bar = Bar(2.0) if name == "index" else None
        yield Figure.of_rounds(GROUP, title, [one / 1e3 for one in speed[name]], "GB/s", bar)
    yield Figure.of_rounds(GROUP, "floor: plain copy, synced", speed["copy"], "MB/s")
    yield Figure.of_rounds(GROUP, "merge_segments, synced", speed["merge"], "MB/s")
    ratio = median(speed["merge"]) / median(speed["copy"])
    yield Figure(GROUP, "merge_segments / plain copy", ratio, "", Bar(OF_A_COPY))


def _seconds(call: Callable[[], list[str]]) -> float:
    """Seconds of a call, after all dirty pages are written; its files are deleted again."""
    os.sync()
    started = time.perf_counter()
    made = call()
    seconds = time.perf_counter() - started
    for path in made:
        os.unlink(path)
    return seconds
