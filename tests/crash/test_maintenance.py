"""Kill -9 after every step of a job, and run it again: readers see the same records all along."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sparklog.log_writer import WriteOptions
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.job import Job
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from sparklog.maintenance.verification.verify import verify
from tests.crash.maintenance import run
from tests.crash.producer import in_process
from tests.logs import append, live_rows, log_files, rows
from tests.maintenance import new_topic

pytestmark = pytest.mark.slow

KILLED = -signal.SIGKILL
READS = {"read", "view", "stat", "list"}
"""To be killed after one of these is to be killed before it."""


class Case(NamedTuple):
    """A job, its options, and whether a log is as the job should leave it."""

    job: Job
    options: dict[str, Any]
    is_done: Callable[[str], bool]


def is_merged(log_dir: str) -> bool:
    return len(live_rows(log_dir)) == 2


def is_indexed(log_dir: str) -> bool:
    return all(size is not None for size in live_rows(log_dir)["index_bytes"].to_pylist())


CASES = {
    "build_index": Case(build_index, {"check": False, "rebuild": False}, is_indexed),
    "merge_segments": Case(merge_segments, {"seal": False}, is_merged),
}


REPAIR = {"repair": True, "records": False}


def damage(log_dir: str) -> None:
    path = log_files(log_dir)[0]
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two partitions of two segments each."""
    config = {"index.interval.bytes": 100, "index.build": "job"}
    log_dir = new_topic(tmp_path_factory.mktemp("log") / "log", partitions=2, config=config)
    options = WriteOptions(batch_size=300)
    for number in range(4):
        append(log_dir, number % 2, range(number, number + 40), options=options)
    return log_dir


class TestKill:
    @pytest.mark.parametrize("name", sorted(CASES))
    def test_after_any_step_changes_nothing_for_readers(
        self, tmp_path: Path, template: str, name: str
    ) -> None:
        """Goal: nothing lost, nothing doubled. Method: a process killed after each step."""
        case, expected = CASES[name], rows(template)
        alive = str(shutil.copytree(template, tmp_path / "alive"))
        code, steps = run(alive, case.job, case.options)
        assert (code, case.is_done(alive), rows(alive)) == (DONE, True, expected)

        for number, step in enumerate(steps, 1):
            if step.kind in READS:
                continue
            log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))
            arguments = (log_dir, case.job, case.options, number)
            assert in_process(run, *arguments) == KILLED
            assert rows(log_dir) == expected
            assert run(log_dir, case.job, case.options)[0] in (DONE, NOTHING_TO_DO)
            assert (case.is_done(log_dir), rows(log_dir)) == (True, expected)

    def test_of_a_repair_loses_no_more_than_the_damage(self, tmp_path: Path, template: str) -> None:
        """A batch of the oldest segment is damaged: the rest is read before, during and after."""
        damage(template := str(shutil.copytree(template, tmp_path / "damaged")))
        alive = str(shutil.copytree(template, tmp_path / "alive"))
        _, steps = run(alive, verify, REPAIR)
        expected = rows(alive)
        assert [len(records) for records in expected.values()] == [53, 80]

        for number, step in enumerate(steps, 1):
            if step.kind in READS:
                continue
            log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))
            assert in_process(run, log_dir, verify, REPAIR, number) == KILLED
            assert run(log_dir, verify, REPAIR)[0] == DONE
            assert rows(log_dir) == expected

    def test_leaves_files_to_vacuum(self, tmp_path: Path, template: str) -> None:
        log_dir = str(shutil.copytree(template, tmp_path / "log"))
        before = log_files(log_dir)
        run(log_dir, merge_segments, {"seal": False})

        assert set(before) < set(log_files(log_dir))
