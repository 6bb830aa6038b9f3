"""Several processes on one manifest: racing, and killed between every two steps of a commit."""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.errors import TopicExistsError
from sparklog.model import OffsetRange
from tests.manifests import NOW_MS, append, delta_store, segment, spans

PROCESSES = 4
COMMITS = 25


def commit_often(folder: Path, flush: bool) -> list[OffsetRange]:
    """Append COMMITS times; return what was got."""
    store = delta_store(folder, SystemClock(), flush=flush)
    done = [append(store, segment(made_ms=NOW_MS)).ranges for _ in range(COMMITS)]
    return [got for ranges in done for got in ranges or ()]


def create_topic(log_dir: Path, partitions: int) -> int | None:
    """Create the one topic; return the number of its partitions, None when others were faster."""
    try:
        return AdminClient(log_dir).create_topics([NewTopic("t", partitions)])[0].num_partitions
    except TopicExistsError:
        return None


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as pool:
        yield pool


class TestRacing:
    def test_all_succeed_with_contiguous_offsets(
        self, tmp_path: Path, pool: ProcessPoolExecutor
    ) -> None:
        racers = [pool.submit(commit_often, tmp_path, i % 2 == 0) for i in range(PROCESSES)]
        answers = sorted(got for racer in racers for got in racer.result())

        expected = [(start, start + 10) for start in range(0, 10 * PROCESSES * COMMITS, 10)]
        assert [(got.start, got.end) for got in answers] == expected
        assert spans(delta_store(tmp_path).snapshot()) == expected

    def test_one_makes_the_log_dir_and_the_topic(
        self, tmp_path: Path, pool: ProcessPoolExecutor
    ) -> None:
        for round_number in range(3):
            log_dir = tmp_path / str(round_number)
            racers = [pool.submit(create_topic, log_dir, 1 + i) for i in range(PROCESSES)]
            made = {count for racer in racers if (count := racer.result()) is not None}

            assert made == {
                topic.num_partitions for topic in AdminClient(log_dir).describe_topics()
            }
            assert len(made) == 1


VICTIM = """
import os, signal, sys
from pathlib import Path
from sparklog.clock import SystemClock
from sparklog.manifest.delta_rs import DeltaLog
from sparklog.manifest.synced import SyncedLog
from sparklog.storage.local import LocalFiles
from tests.manifests import append, delta_store, segment

folder, step = sys.argv[1:]
store = delta_store(Path(folder), SystemClock(), flush=True)
append(store, segment())

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def die_after(owner, name):
    work = getattr(owner, name)
    setattr(owner, name, lambda *a, **k: (work(*a, **k), die()))

def write_half(files, path, data):
    file = files.create(path)
    file.write(bytes(data)[: len(data) // 2])
    die()

match step:
    case "before the file": DeltaLog.write = die
    case "half of the file": LocalFiles.write_new = write_half
    case "after the file": die_after(DeltaLog, "write")
    case "after its sync": die_after(DeltaLog, "sync_files")
    case "after the commit": die_after(DeltaLog, "commit")
    case "half of the sync": die_after(SyncedLog, "_sync_checkpoint")
    case "before the answer": die_after(DeltaLog, "sync_log")
append(store, segment(records=3), segment(1), app_id="writer", version=5)
"""

INVISIBLE = ("before the file", "half of the file", "after the file", "after its sync")
COMMITTED = ("after the commit", "half of the sync", "before the answer")


def kill(folder: Path, step: str) -> None:
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, str(folder), step], check=False, capture_output=True
    )

    assert victim.returncode == -signal.SIGKILL, victim.stderr.decode()


class TestKilled:
    @pytest.mark.parametrize("step", INVISIBLE + COMMITTED)
    def test_a_replay_makes_it_exactly_once(self, tmp_path: Path, step: str) -> None:
        kill(tmp_path, step)
        store = delta_store(tmp_path, SystemClock(), flush=True)
        seen = spans(store.snapshot())
        entries = segment(records=3), segment(1)
        done = append(store, *entries, app_id="writer", version=5)

        assert seen == ([(0, 10), (10, 13)] if step in COMMITTED else [(0, 10)])
        assert done.ranges == (OffsetRange(0, 10, 13), OffsetRange(1, 0, 10))
        assert done.replayed == (step in COMMITTED)
        assert spans(store.snapshot()) == [(0, 10), (10, 13)]
        assert spans(store.snapshot(), 1) == [(0, 10)]
