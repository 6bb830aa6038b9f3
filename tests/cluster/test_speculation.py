"""A task that Spark runs twice at once is committed once."""

import pytest

from tests.cluster.speculating import RECORDS, TASKS
from tests.cluster.standalone import Standalone, run_driver
from tests.logs import all_values, new_topic

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EXPECTED = sorted(f"{number}/{1 if number < RECORDS // TASKS else 0}" for number in range(RECORDS))
"""Of the task that hung, the copy's rows; of the others the first attempt's."""


@pytest.fixture(scope="module")
def log_dir(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log dir that a speculating driver has written to."""
    folder = tmp_path_factory.mktemp("speculation")
    for topic in ("produced", "written"):
        new_topic(folder / "log", topic)
    log_dir = str(folder / "log")
    driver = run_driver(cluster, log_dir, module="tests.cluster.speculating")
    assert driver.returncode == 0, driver.stderr
    return log_dir


class TestSpeculation:
    @pytest.mark.parametrize("topic", ["produced", "written"])
    def test_commits_one_attempt(self, log_dir: str, topic: str) -> None:
        assert all_values(log_dir, topic) == EXPECTED
