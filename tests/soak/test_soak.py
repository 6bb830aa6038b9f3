"""Minutes to hours of killing: `make soak`, SPARKLOG_SOAK_SECONDS long, 10 minutes if not said.

`python -m tests.soak --seed N` runs one again.
"""

import os
import secrets

import pytest

from tests.soak.started import run_soak

SECONDS = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600"))
ROUND_S = 120.0
"""A run starts from an empty log, so that the seeds count and the history stays in memory."""


@pytest.mark.soak
class TestSoak:
    def test_finds_no_anomaly(self) -> None:
        left = SECONDS
        while left > 0:
            seed = secrets.randbelow(1_000_000)
            code, said = run_soak(seed, min(ROUND_S, left))
            print(said)
            left -= ROUND_S

            assert code == 0, said
