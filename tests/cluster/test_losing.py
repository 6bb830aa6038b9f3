"""Map tasks of a clustered produce run again when their output is lost."""

from pathlib import Path

import pytest

from tests.cluster.losing import PARTITIONS, RECORDS, TASKS
from tests.cluster.standalone import Standalone, run_driver
from tests.logs import OWN_FILES, all_values, new_topic

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_lost_shuffle_neither_loses_nor_doubles_rows_without_keys(
    cluster: Standalone, tmp_path: Path
) -> None:
    log_dir = new_topic(tmp_path / "log", "t", PARTITIONS, OWN_FILES)
    driver = run_driver(cluster, log_dir, module="tests.cluster.losing")

    assert driver.returncode == 0, driver.stderr
    assert int(driver.stdout.splitlines()[-1]) > TASKS
    assert all_values(log_dir) == sorted(map(str, range(RECORDS)))
