"""Lookups against a naive scan, at random logs, for a tenth of SPARKLOG_SOAK_SECONDS."""

import os
import secrets
import time
from pathlib import Path

import pytest

from tests.rest.conftest import client_for, settings_for
from tests.rest.lookups import Lookups, random_log

SECONDS = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600")) / 10
ROUNDS = 60

pytestmark = pytest.mark.soak


def test_lookups_equal_a_scan_while_the_log_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = seed = secrets.randbelow(1_000_000)
    end, count = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        log_dir = random_log(tmp_path / str(seed), seed)
        with client_for(settings_for(log_dir)) as client:
            lookups = Lookups(log_dir, client, seed)
            asked = [lookups.ask(q) for _ in lookups.change(ROUNDS) for q in lookups.questions()]

        assert lookups.wrong(asked) == [], f"seed {seed}"
        seed, count = seed + 1, count + len(asked)
    with capsys.disabled():
        print(f"\n{count} lookups, seeds {first} to {seed - 1}: as a scan tells")
