"""Kill -9 after every step of retention, and run it again: all that was to go goes at once."""

import shutil
import signal
from pathlib import Path

import pytest

from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from tests.crash.maintenance import run
from tests.crash.producer import in_process
from tests.logs import append, image, log_files, rows
from tests.maintenance import new_topic

pytestmark = pytest.mark.slow
KILLED = -signal.SIGKILL
READS = {"read", "view", "stat", "list"}
"""To be killed after one of these is to be killed before it."""


def starts(log_dir: str) -> list[int]:
    """The log start offset of each partition."""
    return [image(log_dir).partition(partition).log_start_offset for partition in range(2)]


class TestKill:
    def test_after_any_step_leaves_the_log_of_before_or_of_after(self, tmp_path: Path) -> None:
        """Goal: never half of it, and no record that was to stay is lost."""
        config = {"retention.ms": "-1", "retention.bytes": "1"}
        template = new_topic(tmp_path / "log", partitions=2, config=config)
        for number in range(4):
            append(template, number % 2, range(5))
        before, files = rows(template), log_files(template)
        alive = str(shutil.copytree(template, tmp_path / "alive"))
        code, steps = run(alive, retention, {})
        after = rows(alive)

        assert (code, starts(alive)) == (DONE, [5, 5])
        assert {number: len(found) for number, found in after.items()} == {0: 5, 1: 5}
        for number, step in enumerate(steps, 1):
            if step.kind in READS:
                continue
            log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))
            assert in_process(run, log_dir, retention, {}, number) == KILLED
            assert rows(log_dir) in (before, after)
            assert run(log_dir, retention, {})[0] in (DONE, NOTHING_TO_DO)
            assert (rows(log_dir), starts(log_dir)) == (after, [5, 5])
            assert len(log_files(log_dir)) == len(files)
