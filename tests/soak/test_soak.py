"""Minutes to hours of killing: `make soak`, SPARKLOG_SOAK_SECONDS long, 10 minutes if not said.

`python -m tests.soak --seed N` runs one again, and so does `python -m tests.soak.transactions`.
"""

import os
import secrets
import time
from pathlib import Path

import pytest

from tests.soak.power_cut import cut_and_go_on
from tests.soak.started import run_soak

SECONDS = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600"))
ROUND_S = 120.0
"""A run starts from an empty log, so that seeds vary and a history fits into memory."""
POWER_CUTS = 0.1
"""The share of the time for power cuts."""
TRANSACTIONS = 0.2
"""The share of the time for transactions, and the same again for those of stopped processes."""

pytestmark = pytest.mark.soak


class TestKilledAtRandom:
    def test_nothing_is_lost_doubled_torn_or_moved(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        left = SECONDS * (1 - POWER_CUTS - 2 * TRANSACTIONS)
        while left > 0:
            code, said = run_soak(secrets.randbelow(1_000_000), min(ROUND_S, left))
            with capsys.disabled():
                print(f"\n{said}")
            left -= ROUND_S

            assert code == 0, said


class TestTransactions:
    @pytest.mark.parametrize("nemesis", ["killer", "sleeper"])
    def test_are_whole_and_come_once(
        self, nemesis: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        seed = secrets.randbelow(1_000_000)
        options = "tests.soak.transactions", "--nemesis", nemesis
        code, said = run_soak(seed, SECONDS * TRANSACTIONS, *options)
        with capsys.disabled():
            print(f"\n{said}")

        assert code == 0, said


class TestPowerCuts:
    def test_take_nothing_that_was_acknowledged(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first = seed = secrets.randbelow(1_000_000)
        end = time.monotonic() + SECONDS * POWER_CUTS
        while time.monotonic() < end:
            assert cut_and_go_on(tmp_path / str(seed), seed) == [], f"seed {seed}"
            seed += 1
        with capsys.disabled():
            print(f"\n{seed - first} power cuts, seeds {first} to {seed - 1}: nothing lost")
