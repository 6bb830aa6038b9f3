"""The promises of the metadata log on every storage, to other processes and to Delta's readers."""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from sparklog.clock import ManualClock, SystemClock
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from tests.edits import segment
from tests.metadata_language import TOPIC, creating, ends, new_log, producing, whole
from tests.naive.metadata import said_by

PROCESSES = 4
COMMITS = 25


def commit_often(folder: Path, flush: bool) -> list[int]:
    """Append COMMITS times ten records; return the log end offsets."""
    log = MetadataLog(LocalFiles(str(folder)), SystemClock(), flush=flush)
    commits = (log.commit(producing(segment()), TOPIC) for _ in range(COMMITS))
    return [ends(one.image) for one in commits]


class TestAnyStorage:
    def test_who_opens_follows_or_commits_sees_the_same(self, files: Files) -> None:
        log = new_log(files)
        follower = MetadataLog(files, ManualClock())
        follower.image(TOPIC)
        for number in range(1, 4):
            log.commit(producing(segment(), segment(1)), TOPIC)
            log.commit(lambda _, number=number: creating(number))  # type: ignore[misc] # mypy cannot infer a lambda with a default
            fold(log)
        log.commit(producing(segment()), TOPIC)
        opened = MetadataLog(files, ManualClock())

        assert said_by(whole(opened)) == said_by(whole(follower)) == said_by(whole(log))
        assert ends(whole(opened)) == 40

    def test_committers_that_do_not_know_each_other_land_one_after_the_other(
        self, files: Files
    ) -> None:
        logs = [new_log(files), *(MetadataLog(files, ManualClock()) for _ in range(2))]
        got = [
            ends(log.commit(producing(segment()), TOPIC).image) for _ in range(3) for log in logs
        ]

        assert got == list(range(10, 100, 10))


class TestProcesses:
    def test_all_succeed_with_contiguous_offsets(self, tmp_path: Path) -> None:
        new_log(LocalFiles(str(tmp_path)), SystemClock())
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as pool:
            racers = [pool.submit(commit_often, tmp_path, at % 2 == 0) for at in range(PROCESSES)]
            got = sorted(end for racer in racers for end in racer.result())

        assert got == list(range(10, 10 * PROCESSES * COMMITS + 1, 10))


VICTIM = """
import os, signal, sys
from sparklog.clock import SystemClock
from sparklog.metadata.entries import Entries
from sparklog.metadata.log import MetadataLog
from sparklog.storage.local import LocalFiles
from tests.edits import segment
from tests.metadata_language import producing, topic_id

folder, step = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def die_after(owner, name):
    work = getattr(owner, name)
    setattr(owner, name, lambda *a, **k: (work(*a, **k), die()))

match step:
    case "before the entry": LocalFiles.put_new = die
    case "before its name": os.link = die
    case "after the entry": die_after(Entries, "put")
    case "before the answer": MetadataLog.sync = die
log = MetadataLog(LocalFiles(folder), SystemClock())
log.commit(producing(segment()), [topic_id(0)])
"""


class TestKilled:
    @pytest.mark.parametrize(
        ("step", "has_landed"),
        [
            ("before the entry", False),
            ("before its name", False),
            ("after the entry", True),
            ("before the answer", True),
        ],
    )
    def test_a_commit_is_there_or_is_not(self, tmp_path: Path, step: str, has_landed: bool) -> None:
        log = new_log(LocalFiles(str(tmp_path)), SystemClock())
        victim = subprocess.run(
            [sys.executable, "-c", VICTIM, str(tmp_path), step], check=False, capture_output=True
        )

        assert victim.returncode == -signal.SIGKILL, victim.stderr.decode()
        assert ends(log.commit(producing(segment()), TOPIC).image) == 10 * (1 + has_landed)


class TestDeltaReaders:
    """delta-rs reads the rows, and refuses to write."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> Callable[[], DeltaTable]:
        self.log = new_log(LocalFiles(str(tmp_path)))
        return lambda: DeltaTable(tmp_path / "__cluster_metadata")

    def test_every_kind_of_entry_is_read(self, table: Callable[[], DeltaTable]) -> None:
        for _ in range(3):
            self.log.commit(producing(segment()), TOPIC)
            assert table().version() == self.log.image().version
            fold(self.log)
            assert table().version() == self.log.image().version
        rows = sum(run.rows for run in self.log.image().fold.runs)

        assert table().to_pyarrow_dataset().count_rows() == rows
        assert [one["operation"] for one in table().history(2)] == ["FOLD", "PRODUCE"]

    def test_an_append_is_refused(self, table: Callable[[], DeltaTable]) -> None:
        self.log.commit(producing(segment()), TOPIC)
        fold(self.log)
        data = table().to_pyarrow_dataset().to_table()

        with pytest.raises(DeltaError, match="sparklog"):
            write_deltalake(table(), data, mode="append")
