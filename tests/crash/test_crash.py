"""Kill -9 after every step of a produce, and replay it: no hole, no duplicate, nothing lost."""

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparklog.metadata.fold import FOLD_EVERY
from sparklog.metadata.names import ENTRIES, HINT
from sparklog.model import SHARED_PREFIX, OffsetRange
from sparklog.storage.memory import Operation
from tests.crash.producer import PARTITIONS, RECORDS, Write, in_process, run
from tests.logs import append, image, new_topic, values

pytestmark = pytest.mark.slow

KILLED = -signal.SIGKILL
SHARED = {"index.interval.bytes": 100}
"""Of a topic whose records go into shared segments, for they are few."""
OWN_FILES = {**SHARED, "sparklog.shared.segment.max.bytes": 0}

FIRST, LATER = Write(), Write("later", version=2)
MADE_BEFORE = 2
"""Entries of a new log: its own creation, and that of its topic."""
READS = {"read", "view", "stat", "list"}
"""To be killed after one of these is to be killed before it."""


def new_log(place: Path, commits: int, config: Mapping[str, int] = SHARED) -> str:
    """A log with `commits` acknowledged commits, each of a record for every partition in turn."""
    log_dir = new_topic(place, partitions=PARTITIONS, config=config)
    for number in range(commits):
        append(log_dir, number % PARTITIONS, [number])
    return log_dir


def contents(before: int, *writes: Write) -> dict[int, list[str]]:
    """What the log must hold after the earlier commits and these."""
    return {
        partition: [str(number) for number in range(partition, before, PARTITIONS)]
        + [value for write in writes for value in write.values(partition)]
        for partition in range(PARTITIONS)
    }


def commit_of(steps: list[Operation]) -> int:
    """Which step puts the entry that makes the write visible."""
    puts = (step.kind == "put_new" and step.path.startswith(ENTRIES) for step in steps)
    return list(puts).index(True)


def synced(steps: list[Operation]) -> set[str]:
    return {step.path for step in steps if step.kind == "sync"}


class TestSteps:
    @pytest.mark.parametrize(("config", "files"), [(OWN_FILES, 8), (SHARED, 2)])
    def test_come_in_the_order_that_survives_a_power_cut(
        self, config: Mapping[str, int], files: int, tmp_path: Path
    ) -> None:
        """Data, then the entry (synced before it gets its name), then the entry's name."""
        _, steps = run(new_log(tmp_path / "log", 2, config), FIRST)
        commit = commit_of(steps)
        made = {step.path for step in steps if step.kind in ("close", "write_new")}

        assert len(made) >= files
        assert all("/t-" in path or path.startswith(SHARED_PREFIX) for path in made)
        assert made == synced(steps[:commit])
        behind = [(step.kind, step.path) for step in steps[commit + 1 :] if step.kind not in READS]
        assert behind == [("sync_directory", ENTRIES)]

    def test_make_no_file_durable_twice(self, tmp_path: Path) -> None:
        _, steps = run(new_log(tmp_path / "log", 2), FIRST)
        files = [step.path for step in steps if step.kind == "sync"]

        assert len(files) == len(set(files))


class TestKill:
    @pytest.mark.parametrize(
        ("before", "config"), [(4, OWN_FILES), (4, SHARED), (FOLD_EVERY - MADE_BEFORE, SHARED)]
    )
    def test_after_any_step_is_healed_by_a_replay(
        self, tmp_path: Path, before: int, config: Mapping[str, int]
    ) -> None:
        """Goal: exactly once, whatever dies when. Method: a process killed after each step.

        On the last log the commit is followed by a fold, and only these are of interest.
        """
        template = new_log(tmp_path / "template", before, config)
        steps = run(str(shutil.copytree(template, tmp_path / "alive")), FIRST)[1]
        commit = commit_of(steps)
        assert (HINT in {step.path for step in steps[commit:]}) == (before > 4)
        first = 0 if before == 4 else commit - 4
        for number in range(first, len(steps)):
            if steps[number].kind in READS:
                continue
            log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))

            assert in_process(run, log_dir, FIRST, number + 1) == KILLED
            assert self.healed(log_dir, before) == (number >= commit)

    def healed(self, log_dir: str, before: int) -> bool:
        """Whether the write had landed; either way it is there once, after a replay."""
        seen = values(log_dir)
        assert seen in (contents(before), contents(before, FIRST))
        again, _ = run(log_dir, FIRST)

        assert again.replayed == (seen == contents(before, FIRST))
        starts = [len(found) for found in contents(before).values()]
        assert again.ranges == tuple(
            OffsetRange(partition, start, start + RECORDS) for partition, start in enumerate(starts)
        )
        run(log_dir, LATER)
        assert values(log_dir) == contents(before, FIRST, LATER)
        return again.replayed

    def test_of_none_is_an_answer(self, tmp_path: Path) -> None:
        log_dir = new_log(tmp_path / "log", 2)

        assert in_process(run, log_dir, FIRST, None) == 0
        assert values(log_dir) == contents(2, FIRST)
        assert image(log_dir).partition(0).log_end_offset == 1 + RECORDS
