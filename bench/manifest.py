"""The manifest: many committers at once, and a topic with many segments."""

import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median

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
SEGMENTS = 50_000
SEGMENTS_PER_COMMIT = 1000
RECORDS_PER_SEGMENT = 1000
LOOKUPS = 1000
TIMEOUT_S = 300
DIRECTORY = "bench/manifest"


def run(settings: Settings) -> list[Figure]:
    """Commits/s with and without fsync; opening and lookups among 50,000 segments."""
    rounds = 1 if settings.quick else settings.rounds
    folder = settings.directory / "manifest"
    return [*_committing(folder, rounds), *_many_segments(folder, rounds)]


def _committing(folder: Path, rounds: int) -> Iterator[Figure]:
    group = f"manifest: {PROCESSES} processes, {COMMITS} commits each"
    for flush, bar in ((False, Bar(least=60)), (True, None)):
        rates = [PROCESSES * COMMITS / _race(folder, flush) for _ in range(rounds)]
        name = f"flush={'fsync' if flush else 'none'}"
        yield Figure.of_rounds(group, name, rates, "commits/s", bar)


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
        segment = _segment(0, SystemClock().now_ms())
        got += store.commit(_appending([segment])).ranges or ()
    answers.put(got)


def _appending(pending: list[SegmentEntry]) -> Plan:
    return lambda snapshot: Change(segments=at_log_end(snapshot, pending))


def _check_contiguous(ranges: list[OffsetRange]) -> None:
    """Every commit landed once, and each range begins where one before it ended."""
    starts, ends = [got.start for got in ranges], [got.end for got in ranges]
    if len(ranges) != PROCESSES * COMMITS or starts != [0, *ends[:-1]]:
        raise RuntimeError(f"{len(ranges)} commits landed, or their offsets have a hole")


def _many_segments(folder: Path, rounds: int) -> Iterator[Figure]:
    group = f"manifest: a topic of {SEGMENTS:,} live segments"
    shutil.rmtree(folder, ignore_errors=True)
    DeltaManifestStore.create(open_files(str(folder)), DIRECTORY, SystemClock(), flush=False)
    writer = _store(str(folder), flush=False)
    for number in range(SEGMENTS // SEGMENTS_PER_COMMIT):
        _commit_many(writer, number)
    opened = [_seconds(lambda: _open(str(folder))) for _ in range(rounds)]
    yield Figure.of_rounds(group, "open", opened, "s", Bar(most=1))
    segments = _store(str(folder), flush=False).snapshot().segments(0)
    end = SEGMENTS * RECORDS_PER_SEGMENT
    wanted = range(0, end, end // LOOKUPS)
    by_offset = [_seconds(partial(segments.floor, at)) for at in wanted]
    yield Figure(group, "segment of an offset, warm", median(by_offset) * 1000, "ms", Bar(most=1))
    by_time = [_seconds(partial(segments.first_with_timestamp, at)) for at in wanted]
    yield Figure(group, "segment of a timestamp, warm", median(by_time) * 1000, "ms", Bar(most=1))


def _commit_many(writer: DeltaManifestStore, number: int) -> None:
    """One commit of a thousand segments, each newer than the one before."""
    now_ms = SystemClock().now_ms()
    first = number * SEGMENTS_PER_COMMIT
    pending = [
        _segment((first + i + 1) * RECORDS_PER_SEGMENT - 1, now_ms)
        for i in range(SEGMENTS_PER_COMMIT)
    ]
    writer.commit(_appending(pending))


def _open(folder: str) -> None:
    _store(folder, flush=False).snapshot().segments(0)


def _store(folder: str, flush: bool) -> DeltaManifestStore:
    return DeltaManifestStore(open_files(folder), DIRECTORY, SystemClock(), flush=flush)


def _segment(max_timestamp: int, now_ms: int) -> SegmentEntry:
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
        max_timestamp=max_timestamp,
        codec=0,
        max_leader_epoch=0,
        producer_ids=(),
        created_ms=now_ms,
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
