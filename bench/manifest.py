"""Committing: several processes at one manifest at once."""

import multiprocessing
import os
import shutil
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.clock import SystemClock
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name, uuid7
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.manifest.store import Change, Plan, at_log_end
from sparklog.model import OffsetRange, SegmentEntry
from sparklog.storage.open import open_files

PROCESSES = 4
COMMITS = 100
RECORDS_PER_SEGMENT = 1000
TIMEOUT_S = 300
DIRECTORY = "bench/manifest"


def run(settings: Settings) -> list[Figure]:
    """Commits/s of all together, without and with fsync."""
    rounds = 1 if settings.quick else settings.rounds
    group = f"manifest: {PROCESSES} processes, {COMMITS} commits each"
    figures = []
    for flush, bar in ((False, Bar(least=60)), (True, None)):
        folder = settings.directory / "manifest"
        rates = [PROCESSES * COMMITS / _race(folder, flush) for _ in range(rounds)]
        name = f"flush={'fsync' if flush else 'none'}"
        figures.append(Figure.of_rounds(group, name, rates, "commits/s", bar))
    return figures


def _race(folder: Path, flush: bool) -> float:
    """Seconds from the moment all processes are ready until the last commit of all."""
    shutil.rmtree(folder, ignore_errors=True)
    DeltaManifestStore.create(open_files(str(folder)), DIRECTORY, SystemClock(), flush=flush)
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(PROCESSES + 1)
    answers: multiprocessing.Queue[list[OffsetRange]] = spawn.Queue()
    racers = [
        spawn.Process(target=_commit_often, args=(str(folder), flush, ready, answers))
        for _ in range(PROCESSES)
    ]
    for racer in racers:
        racer.start()
    ready.wait(TIMEOUT_S)
    start = time.perf_counter()
    ranges = sorted(got for _ in racers for got in answers.get(timeout=TIMEOUT_S))
    seconds = time.perf_counter() - start
    for racer in racers:
        racer.join()
    _check_contiguous(ranges)
    return seconds


def _commit_often(
    folder: str,
    flush: bool,
    ready: Barrier,
    answers: "multiprocessing.Queue[list[OffsetRange]]",
) -> None:
    store = _store(folder, flush)
    store.snapshot()
    got: list[OffsetRange] = []
    ready.wait(TIMEOUT_S)
    for _ in range(COMMITS):
        segment = _segment(SystemClock().now_ms())
        got += store.commit(_appending([segment])).ranges or ()
    answers.put(got)


def _appending(pending: list[SegmentEntry]) -> Plan:
    return lambda snapshot: Change(segments=at_log_end(snapshot, pending))


def _check_contiguous(ranges: list[OffsetRange]) -> None:
    """Every commit landed once, and each range begins where one before it ended."""
    starts, ends = [got.start for got in ranges], [got.end for got in ranges]
    if len(ranges) != PROCESSES * COMMITS or starts != [0, *ends[:-1]]:
        raise RuntimeError(f"{len(ranges)} commits landed, or their offsets have a hole")


def _store(folder: str, flush: bool) -> DeltaManifestStore:
    return DeltaManifestStore(open_files(folder), DIRECTORY, SystemClock(), flush=flush)


def _segment(now_ms: int) -> SegmentEntry:
    """A segment of partition 0 whose files nobody looks at."""
    uuid = uuid7(now_ms, os.urandom(10))
    return SegmentEntry(
        partition=0,
        base_offset=0,
        next_offset=RECORDS_PER_SEGMENT,
        file_base_offset=0,
        log_path=f"bench-0/{segment_name(0, uuid, LOG_SUFFIX)}",
        log_bytes=100_000,
        index_path=f"bench-0/{segment_name(0, uuid, INDEX_SUFFIX)}",
        index_bytes=184,
        time_index_path=f"bench-0/{segment_name(0, uuid, TIME_INDEX_SUFFIX)}",
        time_index_bytes=276,
        log_crc32c=1,
        record_count=RECORDS_PER_SEGMENT,
        batch_count=10,
        min_timestamp=0,
        max_timestamp=0,
        codec=0,
        max_leader_epoch=0,
        producer_ids=(),
        created_ms=now_ms,
    )
