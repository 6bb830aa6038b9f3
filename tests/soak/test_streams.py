"""Streams killed at forty seeded moments."""

import random
import secrets
from pathlib import Path

import pytest

from tests.spark.stream_driver import POINTS
from tests.spark.streaming import Streams

pytestmark = pytest.mark.soak

KILLS = 40
LONGEST_SECONDS = 6.0


def test_forty_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    """Every other kill is at one of the points between the steps of a micro-batch."""
    seed = secrets.randbelow(1_000_000)
    print(f"seed {seed}")
    chance, streams = random.Random(seed), Streams(tmp_path)
    for number in range(KILLS):
        if number % 2:
            streams.killed_at(chance.choice(POINTS))
        else:
            streams.killed_after(chance.uniform(0, LONGEST_SECONDS))
    streams.finish()
    print(f"{streams.check()} records, {KILLS} kills")
