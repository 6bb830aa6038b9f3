"""Starts a run as its own program: its processes are killed, so nobody may measure or wait in them.

A process that dies while coverage saves its data leaves a file that cannot be combined.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_soak(
    seed: int, seconds: float, program: str = "tests.soak", *options: str
) -> tuple[int, str]:
    """Run `python -m tests.soak`, or another program; return its exit code and what it printed.

    With the JIT, whatever the caller does without: the run is to be as fast as users' programs are.
    """
    arguments = ["--seed", str(seed), "--seconds", str(seconds), *options]
    return _run(program, arguments, ("COVERAGE_", "COV_", "NUMBA_DISABLE_JIT"), {})


def run_table_soak(seed: int, kills: int) -> tuple[int, str]:
    """Run `python -m tests.soak.table`; return its exit code and what it printed.

    Without the JIT: its processes live too shortly to load kernels.
    """
    arguments = ["--seed", str(seed), "--kills", str(kills)]
    return _run("tests.soak.table", arguments, ("COVERAGE_", "COV_"), {"NUMBA_DISABLE_JIT": "1"})


def _run(
    module: str, arguments: Sequence[str], left_out: tuple[str, ...], added: Mapping[str, str]
) -> tuple[int, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(left_out)} | {**added}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout
