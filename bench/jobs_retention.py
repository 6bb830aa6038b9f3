"""Retention of many segments, and vacuum of many files, planned and done; no Spark."""

import os
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock, SystemClock
from sparklog.fleet import LocalFleet
from sparklog.log.names import LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name, uuid7
from sparklog.maintenance.job import Job, JobContext
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import DONE, JobRun, StepReport
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.edit import TopicEdit
from sparklog.metadata.state.image import TopicImage, at_log_end
from sparklog.metadata.upkeep.housekeeping import wait_for_folds
from sparklog.model import SegmentEntry
from sparklog.storage import open_files

GROUP = "jobs: many segments, many files"
SEGMENTS = 50_000
PARTITIONS = 16
RETENTION_S = 5
VACUUM_S = 30
TWO_DAYS_MS = 2 * 24 * 3600 * 1000


def run(settings: Settings) -> list[Figure]:
    """Seconds to remove 50,000 expired segments, and to vacuum their 100,000 files."""
    rounds = 1 if settings.quick else settings.rounds
    times = [_round(settings.directory / "retention") for _ in range(rounds)]
    retained, vacuumed = zip(*times, strict=True)
    return [
        Figure.of_rounds(
            GROUP, f"retention of {SEGMENTS:,} segments", retained, "s", Bar(most=RETENTION_S)
        ),
        Figure.of_rounds(
            GROUP, f"vacuum of {2 * SEGMENTS:,} files", vacuumed, "s", Bar(most=VACUUM_S)
        ),
    ]


def _round(folder: Path) -> tuple[float, float]:
    shutil.rmtree(folder, ignore_errors=True)
    AdminClient(str(folder)).create_topics([NewTopic("t", PARTITIONS)])
    try:
        _fill(folder)
        files = 2 * SEGMENTS
        return (
            _seconds(folder, retention, 0, {"segments": SEGMENTS}),
            _seconds(folder, vacuum, TWO_DAYS_MS, {"files": files, "segments": SEGMENTS}),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path) -> None:
    """Make segments whose newest timestamp is 1; nobody reads their files."""
    catalog = Catalog(open_files(str(folder)))
    topic = catalog.topic("t")
    now_ms = SystemClock().now_ms()
    entries = [_segment(number % PARTITIONS, now_ms) for number in range(SEGMENTS)]
    for partition in range(PARTITIONS):
        (folder / topic_directory(topic) / f"t-{partition}").mkdir(parents=True)
    for entry in entries:
        for path in (entry.log_path, entry.time_index_path):
            (folder / topic_directory(topic) / str(path)).write_bytes(b"x" * 100)
    catalog.commit(topic, partial(_adding, entries=entries), operation="PRODUCE")
    wait_for_folds()


def _adding(image: TopicImage, entries: list[SegmentEntry]) -> TopicEdit:
    return TopicEdit(segments=at_log_end(image, entries))


def _segment(partition: int, now_ms: int) -> SegmentEntry:
    uuid = uuid7(now_ms, os.urandom(10))
    return SegmentEntry(
        partition=partition,
        base_offset=0,
        next_offset=10,
        file_base_offset=0,
        log_path=f"t-{partition}/{segment_name(0, uuid, LOG_SUFFIX)}",
        log_bytes=100,
        time_index_path=f"t-{partition}/{segment_name(0, uuid, TIME_INDEX_SUFFIX)}",
        time_index_bytes=100,
        max_timestamp=1,
        created_ms=now_ms,
    )


def _seconds(folder: Path, job: Job, later_ms: int, expected: Mapping[str, Any]) -> float:
    """Seconds that a job takes over a log dir opened anew, as of a later time, its folds too."""
    clock = ManualClock(SystemClock().now_ms() + later_ms)
    reports: list[StepReport] = []
    start = time.perf_counter()
    context = JobContext(Catalog(open_files(str(folder)), clock), LocalFleet())
    code = JobRun(name="job", job=job, options={}).run(context, reports.append)
    wait_for_folds()
    seconds = time.perf_counter() - start
    done = reports[0].outcome
    if code != DONE or done is None or not expected.items() <= done.counts.items():
        raise AssertionError(f"exit code {code}: {done}, not {expected}")
    return seconds
