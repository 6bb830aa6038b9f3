"""Streams on a cluster whose one worker is killed: the other goes on, still exactly once."""

import os
import time
from pathlib import Path

import pytest

from tests.cluster.standalone import clean_environment, running
from tests.logs import values
from tests.spark.streaming import TIMEOUT_SECONDS, Streams

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def count(log_dir: str) -> int:
    return sum(len(found) for found in values(log_dir, "b").values())


def test_a_killed_worker_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)
    for name, value in clean_environment().items():
        monkeypatch.setenv(name, value)
    with running(tmp_path) as cluster:
        streams = Streams(tmp_path, cluster.master)

        def kill_a_worker() -> None:
            cluster.workers[0].kill()
            before, deadline = count(streams.log_dir), time.monotonic() + TIMEOUT_SECONDS
            while count(streams.log_dir) < before + 1000:
                assert time.monotonic() < deadline
                time.sleep(0.5)

        streams.killed_after(1.0, kill_a_worker)
        streams.finish()

    assert streams.check() > 1000
