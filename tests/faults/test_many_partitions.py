"""More partitions than a process may have files open."""

import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.storage.local import LocalFiles
from tests.faults.many_partitions import PARTITIONS


@pytest.mark.slow
class TestManyPartitions:
    def test_are_written_with_few_descriptors(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "tests.faults.many_partitions", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        sizes = [
            stat.bytes
            for stat in LocalFiles(str(tmp_path)).list("", recursive=True)
            if stat.path.endswith(".log")
        ]

        assert done.stderr == ""
        assert done.stdout == f"{PARTITIONS} {sum(sizes)}\n"
        assert len(sizes) == PARTITIONS
        assert len(set(sizes)) == 1
