"""What every test shares: how Hypothesis draws, and where a warning may come from."""

import os
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests begin first: the short ones then fill all processes to the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A log dir with the topic t of 4 partitions."""
    return new_topic(tmp_path / "log", config=FOREVER)
