"""Members of a group that join and leave at random, for minutes."""

import os
import random
import secrets
from pathlib import Path

import pytest

from tests.wire.storming import stormed

SECONDS = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600")) / 4
ROUND_S = 60.0
RECORDS = 600
"""In each partition: a round has to do until its end."""

pytestmark = pytest.mark.soak


def test_every_record_is_processed_and_no_partition_has_two_owners(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, seed = SECONDS, secrets.randbelow(1_000_000)
    while left > 0:
        group = stormed(tmp_path / str(seed), min(ROUND_S, left), random.Random(seed), RECORDS)
        with capsys.disabled():
            print(
                f"\nseed {seed}: {len(group.sizes)} generations, {len(group.generations)} members, "
                f"{len(group.processed)} records"
            )
        assert len(group.processed) == group.expected
        assert (group.doubled, group.fallen) == ([], [])
        left, seed = left - ROUND_S, seed + 1
