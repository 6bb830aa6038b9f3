"""Twenty seconds of `make soak`: writers, readers and all jobs at once, killed at random."""

import os
import secrets

import pytest

from tests.soak.started import run_soak

pytestmark = pytest.mark.slow
SECONDS = 20


class TestKilledAtRandom:
    def test_nothing_is_lost_doubled_torn_or_moved(self) -> None:
        seed = 1 if os.environ.get("CI") else secrets.randbelow(1_000_000)
        code, said = run_soak(seed, SECONDS)
        print(said)

        assert code == 0, said
