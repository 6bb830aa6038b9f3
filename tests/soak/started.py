"""Starts a run as its own program: its processes are killed, so nobody may measure or wait in them.

A process that dies while coverage saves its data leaves a file that cannot be combined.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_soak(seed: int, seconds: float) -> tuple[int, str]:
    """Run `python -m tests.soak`; return its exit code and what it printed.

    With the JIT, whatever the caller does without: the run is to be as fast as users' programs are.
    """
    left_out = ("COVERAGE_", "COV_", "NUMBA_DISABLE_JIT")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--seed", str(seed), "--seconds", str(seconds)],
        cwd=ROOT,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout
