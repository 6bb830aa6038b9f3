"""What every test shares: how Hypothesis draws, and where a warning may come from."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kafka.jars import SHORT_LIVED
from tests.logs import FOREVER, new_topic

# An editable install has sparklog alone: processes that tests start find the rest by this.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# Drivers and brokers take these from the environment. They live for seconds, and would spend
# two fifths of their time in compiling.
for name in ("SPARK_SUBMIT_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS"):
    os.environ.setdefault(name, " ".join(SHORT_LIVED))

# Without the JIT a kernel is a thousand times slower, and CI's machine is shared: no deadline. CI
# draws the same examples on every run, so that a red run is about the change; elsewhere each run
# draws new ones.
settings.register_profile("everywhere", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests begin first, half of them in each of two processes; short ones fill the end.

    pytest-xdist cuts the list in halves, and a process that has done its half takes over the last
    tests of the other's. Without that it would leave the last slow ones to one process. Tests that
    share a broker or a cluster begin in one process, so that only this one starts it.
    """
    items.sort(key=lambda item: not _shares_a_broker(item))
    slow = [item for item in items if item.get_closest_marker("slow")]
    short = [item for item in items if not item.get_closest_marker("slow")]
    some = len(slow) // 2
    rest = len(items) // 2 - some
    items[:] = slow[:some] + short[:rest] + slow[some:] + short[rest:]


def _shares_a_broker(item: pytest.Item) -> bool:
    """Return True if a test uses the broker or the cluster that the tests of its folder share."""
    marks = {mark.name for mark in item.iter_markers()}
    return "spark" not in marks and not marks.isdisjoint(("kafka", "cluster"))


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A log dir with the topic t of 4 partitions."""
    return new_topic(tmp_path / "log", config=FOREVER)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Python's collector does not run: an object in a cycle is not freed."""
    gc.disable()
    yield
    gc.enable()
