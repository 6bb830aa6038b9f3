"""The main job, as a new user runs it: a process of its own, twice into one log dir."""

import subprocess
import sys
from pathlib import Path

import pytest

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.py"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def run(log_dir: Path) -> str:
    """What the quickstart prints; it fails when the log differs from its source."""
    command = [sys.executable, str(QUICKSTART), str(log_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_does_the_main_job_and_may_be_run_again(tmp_path: Path) -> None:
    first, again = run(tmp_path / "log"), run(tmp_path / "log")

    assert "agree on 336,776 flights" in first
    assert "2013-07-04T00:00:00" in first
    assert "nothing was added" in again
    assert "agree on 336,776 flights" in again
