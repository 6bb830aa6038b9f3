"""The metadata log: committing, following, and a million segments.

The floor of a commit has the steps that it cannot do without: write a file, fdatasync it, link it
to its name, sync the directory. It is measured in the same run.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median

from bench.figures import Bar, Figure, elapsed_s
from bench.metadata_scale import PARTITIONS, SEGMENTS, TOPICS, measured_alone, write_large
from bench.settings import Settings
from sparklog.clock import SystemClock
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name, uuid7
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.edit import Edit, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage, at_log_end
from sparklog.metadata.upkeep.fold import fold
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.open import open_files

PROCESSES = 4
COMMITS = 500
RECORDS_PER_SEGMENT = 1000
TIMEOUT_S = 300
TOPIC = TopicDescription("bench", "B" * 22, 4, {}, 1)
ENTRY_BYTES = 900
MS = 1e3
MICROSECONDS = 1e6


def run(settings: Settings) -> list[Figure]:
    """Measure commits of one process and of several, and a log dir of a million segments."""
    # Each log dir has a new directory: files are made slowly where others were just deleted.
    place, rounds = settings.directory, 1 if settings.quick else settings.rounds
    return [*_one_process(place / "one", rounds), *_processes(place, rounds), *_large(place)]


# ------------------------------------------------------------------------------------------ commit


def _one_process(folder: Path, rounds: int) -> list[Figure]:
    log = _new_log(folder, flush=True)
    timed(lambda: _append(log), COMMITS // 5)
    directory = folder / "__cluster_metadata" / "_delta_log"
    floors = timed(lambda: commit_floor(directory), COMMITS)
    commits = timed(lambda: _append(log), COMMITS)
    floors += timed(lambda: commit_floor(directory), COMMITS)
    floor = median(floors) * MS
    follower = MetadataLog(open_files(str(folder)), SystemClock())
    follower.image([TOPIC.topic_id])
    first, next_one = (_followed(log, follower) for _ in range(2))
    opened = elapsed_s(lambda: _open(folder).image([TOPIC.topic_id]))
    later = [next_one, *(_followed(log, follower) for _ in range(rounds - 1))]
    fold(log)
    behind = elapsed_s(lambda: _open(folder).image([TOPIC.topic_id]))
    group = "metadata log: one process, synced"
    bar = Bar(most=max(1.0, 2 * floor))
    return [
        Figure(group, "floor: write, fdatasync, link, sync of the directory", floor, "ms"),
        Figure(group, "a commit, median", median(commits) * MS, "ms", bar),
        Figure(group, f"following the first {COMMITS}, CPU a commit", first, "µs"),
        Figure.of_rounds(
            group, f"following the next {COMMITS}, CPU a commit", later, "µs", Bar(most=50)
        ),
        Figure(group, f"opening, {COMMITS // 5 + 3 * COMMITS} entries and no fold", opened, "s"),
        Figure(group, "opening from a fold", behind, "s", Bar(most=0.5)),
    ]


def _followed(log: MetadataLog, follower: MetadataLog) -> float:
    """Commit, and return the CPU microseconds that following a commit takes."""
    timed(lambda: _append(log), COMMITS)
    return _cpu(lambda: follower.image([TOPIC.topic_id])) / COMMITS * MICROSECONDS


def commit_floor(directory: Path) -> None:
    """Take the steps that no commit can do without."""
    name = directory / f".floor-{os.urandom(8).hex()}"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(descriptor, bytes(ENTRY_BYTES))
    os.fdatasync(descriptor)
    os.close(descriptor)
    os.link(name, f"{name}-linked")
    os.unlink(name)
    handle = os.open(directory, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def _append(log: MetadataLog) -> None:
    log.commit(_plan([_segment(SystemClock().now_ms())]), [TOPIC.topic_id])


def _plan(pending: list[SegmentEntry]) -> Callable[[Image], Edit]:
    def plan(image: Image) -> Edit:
        edit = TopicEdit(segments=at_log_end(_topic(image), pending), leader_epochs={0: 0})
        return Edit(operation="PRODUCE", topics={TOPIC.topic_id: edit})

    return plan


def _topic(image: Image) -> TopicImage:
    return image.topics[TOPIC.topic_id]


def _new_log(folder: Path, flush: bool) -> MetadataLog:
    files = open_files(str(folder))
    MetadataLog.create(files, SystemClock())
    log = MetadataLog(files, SystemClock(), flush=flush)
    made = Edit(operation="CREATE TOPICS", topics={TOPIC.topic_id: TopicEdit(description=TOPIC)})
    log.commit(lambda _: made)
    return log


def _open(folder: Path, flush: bool = True) -> MetadataLog:
    return MetadataLog(open_files(str(folder)), SystemClock(), flush=flush)


# --------------------------------------------------------------------------------------- processes


def _processes(place: Path, rounds: int) -> list[Figure]:
    group = f"metadata log: {PROCESSES} processes, {COMMITS} commits each"
    figures = []
    for flush, least in ((True, 800), (False, 3000)):
        folders = [Path(tempfile.mkdtemp(dir=place)) for _ in range(rounds)]
        rates = [PROCESSES * COMMITS / _race(folder, flush) for folder in folders]
        name = "synced" if flush else "not synced"
        figures.append(Figure.of_rounds(group, name, rates, "commits/s", Bar(least=least)))
    return figures


def _race(folder: Path, flush: bool) -> float:
    """Seconds from the moment all processes are ready until the last commit of all."""
    _new_log(folder, flush)
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(PROCESSES + 1)
    racers = [
        spawn.Process(target=_commit_often, args=(str(folder), flush, ready))
        for _ in range(PROCESSES)
    ]
    for racer in racers:
        racer.start()
    ready.wait(TIMEOUT_S)
    start = time.perf_counter()
    for racer in racers:
        racer.join()
    seconds = time.perf_counter() - start
    _check_contiguous(_topic(_open(folder).image([TOPIC.topic_id])))
    return seconds


def _commit_often(folder: str, flush: bool, ready: Barrier) -> None:
    log = _open(Path(folder), flush)
    log.image([TOPIC.topic_id])
    ready.wait(TIMEOUT_S)
    for _ in range(COMMITS):
        _append(log)


def _check_contiguous(topic: TopicImage) -> None:
    """Every commit landed once, and each begins where the one before it ended."""
    entries = topic.partition(0).entries()
    ends = [0, *(entry.next_offset for entry in entries)]
    starts = [entry.base_offset for entry in entries]
    if len(entries) != PROCESSES * COMMITS or starts != ends[:-1]:
        raise RuntimeError(f"{len(entries)} commits landed, or their offsets have a hole")


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


# --------------------------------------------------------------------------------------- a million


def _large(place: Path) -> list[Figure]:
    small = _commit_at(place / "thousand", 10, 1_000)
    write_large(place / "opened", TOPICS, SEGMENTS)
    alone = {name: measured_alone(name, place / "opened") for name in ("open one", "open all")}
    large = _commit_at(place / "million", TOPICS, SEGMENTS)
    group = f"metadata log: {SEGMENTS:,} segments, {TOPICS * PARTITIONS:,} partitions"
    bar = Bar(most=max(1.2 * small["commit"], small["commit"] + 0.1))
    return [
        Figure(group, "open one topic", alone["open one"].seconds, "s", Bar(most=0.5)),
        Figure(group, "open all topics", alone["open all"].seconds, "s", Bar(most=5)),
        Figure(group, "all open, resident", alone["open all"].megabytes, "MB", Bar(most=400)),
        Figure(group, "a commit at 1,000 segments, CPU", small["commit"], "ms"),
        Figure(group, "a commit, CPU", large["commit"], "ms", bar),
        Figure(group, "a lookup, first of a version", large["lookup"], "ms", Bar(most=1)),
        Figure(group, "following 100 commits/s", large["follow"], "% of a core", Bar(most=10)),
    ]


def _commit_at(folder: Path, topics: int, segments: int) -> dict[str, float]:
    """CPU of a commit and a lookup (ms), and of following a hundred commits (%)."""
    ids = write_large(folder, topics, segments)
    log, follower = _open(folder, flush=False), _open(folder)
    log.image(ids)
    follower.image(ids)
    chosen = ids[len(ids) // 2]

    def append() -> None:
        pending = [_segment(SystemClock().now_ms())._replace(partition=1)]

        def plan(image: Image) -> Edit:
            placed = at_log_end(image.topics[chosen], pending)
            return Edit(operation="PRODUCE", topics={chosen: TopicEdit(segments=placed)})

        log.commit(plan, [chosen])

    def lookup() -> None:
        topic = log.image([chosen]).topics[chosen]
        end = topic.partition(1).log_end_offset
        segments = topic.partition(1).segments
        segments.entry(segments.first_ending_after(end - 1) or 0)

    commits = [_cpu(append) for _ in range(200)]
    followed = _cpu(follower.image)
    lookups = []
    for _ in range(50):
        append()
        log.image()
        lookups.append(_cpu(lookup))
    return {
        "commit": median(commits) * MS,
        "lookup": median(lookups) * MS,
        "follow": followed / len(commits) * 100 * 100,
    }


def timed(work: Callable[[], object], times: int) -> list[float]:
    """Return the seconds of each call."""
    return [elapsed_s(work) for _ in range(times)]


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
