"""upsert_table killed (-9) at seeded moments, its JVM too: the table is the dictionary."""

import json
import random
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.newest_log import NewestLog

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
KILLS = 12
LONGEST_SECONDS = 8.0


def run(log: NewestLog, moment: str) -> subprocess.CompletedProcess[str]:
    """Let a driver run, in a process group of its own."""
    command = [sys.executable, "-m", "tests.spark.killed_upsert", log.log_dir, log.table]
    command += [str(log.folder / "checkpoint"), moment]
    return subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, start_new_session=True
    )


def test_twelve_kills_leave_the_newest_of_each_key(tmp_path: Path) -> None:
    """Every third kill is between a MERGE and Spark's commit: the batch is replayed."""
    seed = secrets.randbelow(1_000_000)
    print(f"seed {seed}")
    chance, log = random.Random(seed), NewestLog(tmp_path)
    for number in range(KILLS):
        log.put_randomly(chance)
        moment = "merged" if number % 3 == 0 else str(chance.uniform(0, LONGEST_SECONDS))
        ended = run(log, moment)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        print(f"kill {number} at {moment}: {ended.returncode}")
    ended = run(log, "never")

    assert ended.returncode == 0, ended.stderr
    found = {
        (partition, key): (at, value) for partition, key, at, value in json.loads(ended.stdout)
    }
    assert found == log.expected
    print(f"{len(found)} keys, {KILLS} kills")
