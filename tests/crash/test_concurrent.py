"""Processes that produce to one topic at once: every record once, where its answer says."""

from pathlib import Path

import pytest

from tests.crash.producer import PARTITIONS, RECORDS, Write, together
from tests.logs import all_values, new_topic, rows

pytestmark = pytest.mark.slow
PROCESSES = 3
WRITES = 6


class TestProducers:
    def test_get_contiguous_ranges_that_hold_their_records(self, tmp_path: Path) -> None:
        """Goal: offsets are given once. Method: processes race; their answers fill the log."""
        log_dir = new_topic(tmp_path / "log", partitions=PARTITIONS)
        answers = together(log_dir, PROCESSES, WRITES)
        found = rows(log_dir)

        assert len(answers) == PROCESSES * WRITES
        for partition in range(PARTITIONS):
            ranges = sorted(answer[partition] for answer in answers.values())
            assert [got.start for got in ranges] == list(range(0, len(ranges) * RECORDS, RECORDS))
            assert [row.offset for row in found[partition]] == list(range(len(ranges) * RECORDS))
        for name, answer in answers.items():
            for got in answer:
                written = found[got.partition][got.start : got.end]
                assert [row.value for row in written] == [
                    value.encode() for value in Write(name).values(got.partition)
                ]
        assert len(set(all_values(log_dir))) == len(answers) * PARTITIONS * RECORDS
