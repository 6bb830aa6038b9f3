"""Some seconds of `make soak`: processes killed at random, and nothing that may not happen."""

import secrets

from tests.soak.started import run_soak

SECONDS = 8


class TestKilledAtRandom:
    def test_nothing_is_lost_doubled_torn_or_moved(self) -> None:
        code, said = run_soak(secrets.randbelow(1_000_000), SECONDS)
        print(said)

        assert code == 0, said
