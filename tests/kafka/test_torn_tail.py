"""The broker is killed in the middle of writing: its recovery and the import end at one offset."""

import shutil
from pathlib import Path

import pytest

from sparklog.record.scan import scan_batches
from tests.command_line import CommandLine
from tests.kafka.broker import log_end_offsets, running_broker
from tests.kafka.client import Client
from tests.kafka.scenarios import varied_records

pytestmark = pytest.mark.kafka

PREALLOCATED = {"log.preallocate": "true", "log.segment.bytes": "1048576"}
WRITTEN = (0, 8, 11, 12, 17, 40, 100, -30, -2)
"""How many bytes of the last batch were written; below 0, how many were not."""


def cut(path: Path, written: int) -> None:
    """Put zeros in place of the end of the last batch."""
    last = scan_batches(path.read_bytes()).batches
    start, size = int(last.position[-1]), int(last.size[-1])
    kept = written % size
    with path.open("r+b") as file:
        file.seek(start + kept)
        file.write(bytes(size - kept))


def test_ends_where_the_broker_does(tmp_path: Path) -> None:
    with running_broker(tmp_path / "node", PREALLOCATED) as broker:
        whole, empty = len(WRITTEN), len(WRITTEN) + 1
        broker.create_topic("t", empty + 1)
        client = Client(broker, {"batch.num.messages": 10, "compression.type": "zstd"})
        for partition in range(empty):
            client.send("t", varied_records(35), partition)
        broker.kill()
        for partition, written in enumerate(WRITTEN):
            cut(broker.partition_dir("t", partition) / f"{0:020d}.log", written)
        shutil.copytree(broker.data_dir, tmp_path / "copy")
        outcome = CommandLine(str(tmp_path / "log"))(
            "import", tmp_path / "copy", "--format", "json"
        )
        broker.start()

        ends = {row["partition"]: row["end"] for row in outcome.json}
        assert ends == log_end_offsets(broker.bootstrap, "t")
        assert (outcome.code, ends[whole], ends[empty]) == (0, 35, 0)
        assert 0 < ends[0] < 35  # the client decides how many records its last batch has
