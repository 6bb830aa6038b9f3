"""Tables under a thousand kills: SPARKLOG_SOAK_KILLS says how many.

`python -m tests.soak.table --seed N` runs one again.
"""

import os
import secrets

import pytest

from tests.soak.started import run_table_soak

KILLS = int(os.environ.get("SPARKLOG_SOAK_KILLS", "1000"))

pytestmark = pytest.mark.soak


def test_auto_is_the_log_whoever_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run_table_soak(secrets.randbelow(1_000_000), KILLS)
    with capsys.disabled():
        print(f"\n{said}")

    assert code == 0, said
