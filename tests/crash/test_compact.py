"""Kill -9 after every step of compaction, and run it again: readers see a round or none of it."""

import shutil
import signal
from pathlib import Path

import pytest

from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from tests.compaction import COMPACTED
from tests.crash.maintenance import run
from tests.crash.producer import in_process
from tests.logs import Row, append, live_rows, log_files, rows
from tests.maintenance import new_topic, outcome_of

pytestmark = pytest.mark.slow

KILLED = -signal.SIGKILL
READS = {"read", "view", "stat", "list"}
"""To be killed after one of these is to be killed before it."""
FORCED = {"force": True, "reindex": False}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two partitions: a clean segment with older values, two dirty ones, the newest."""
    log_dir = new_topic(tmp_path_factory.mktemp("log") / "log", partitions=2, config=COMPACTED)
    for partition in (0, 1):
        append(log_dir, partition, [1, 2, 3], keys="abc")
        append(log_dir, partition, [4], keys="d")
    outcome_of(compact, log_dir, **FORCED)
    for partition in (0, 1):
        append(log_dir, partition, [5, 6], keys="ad")
        append(log_dir, partition, [7], keys="b")
    return log_dir


def values(records: list[Row]) -> list[bytes | None]:
    return [record.value for record in records]


class TestKill:
    def test_after_any_step_leaves_each_partition_before_or_after_its_round(
        self, tmp_path: Path, template: str
    ) -> None:
        """Goal: nothing lost, nothing doubled. Method: a process killed after each step."""
        alive = str(shutil.copytree(template, tmp_path / "alive"))
        before = rows(alive)
        code, steps = run(alive, compact, FORCED)
        after = rows(alive)
        assert code == DONE
        assert values(before[0]) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
        assert values(after[0]) == values(after[1]) == [b"2", b"3", b"5", b"6", b"7"]

        for number, step in enumerate(steps, 1):
            if step.kind in READS:
                continue
            log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))
            assert in_process(run, log_dir, compact, FORCED, number) == KILLED
            found = rows(log_dir)
            assert all(found[one] in (before[one], after[one]) for one in (0, 1))
            assert run(log_dir, compact, FORCED)[0] in (DONE, NOTHING_TO_DO)
            assert rows(log_dir) == after
            shutil.rmtree(log_dir)

    def test_leaves_files_to_vacuum(self, tmp_path: Path, template: str) -> None:
        log_dir = str(shutil.copytree(template, tmp_path / "log"))
        before = log_files(log_dir)
        run(log_dir, compact, FORCED)

        assert set(before) < set(log_files(log_dir))
        assert len(live_rows(log_dir)) == 4
