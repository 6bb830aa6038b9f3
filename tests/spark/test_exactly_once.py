"""Streams whose driver is killed (-9) again and again: at the end every input is there once."""

import random
from pathlib import Path

import pytest

from tests.spark.stream_driver import POINTS
from tests.spark.streaming import Streams

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = 20261121
LONGEST_SECONDS = 2.0


def test_a_killed_stream_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """At every point between the steps, then at a moment of chance."""
    streams = Streams(tmp_path)
    for point in random.Random(SEED).sample(POINTS, len(POINTS)):
        streams.killed_at(point)
    streams.killed_after(random.Random(SEED).uniform(0, LONGEST_SECONDS))
    streams.finish()

    assert streams.check() > 0
