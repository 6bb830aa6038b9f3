"""The table of a topic, read by engines that know nothing of sparklog."""

from pathlib import Path

import pytest

from tests.table_readers import ENGINES, FAR, RECORDS, append_records, rows_by
from tests.tables import build, counted, records_of, table_of, table_path, topic_with_table

ALL = [*RECORDS, FAR]
BUILDS = 8
"""So many small files are merged into one."""


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return topic_with_table(tmp_path / "log", 1, message_timestamp_after_max_ms=2**62)


@pytest.mark.parametrize("engine", ENGINES)
class TestAnEngine:
    def test_reads_the_records_of_the_log(self, engine: str, log_dir: str) -> None:
        append_records(log_dir, ALL)
        build(log_dir)
        found = records_of(rows_by(engine, table_path(log_dir)))

        assert found == [one._replace(offset=at) for at, one in enumerate(ALL)]

    def test_reads_files_that_were_merged(self, engine: str, log_dir: str) -> None:
        for _ in range(BUILDS):
            append_records(log_dir, ALL)
            reports = build(log_dir)
        found = rows_by(engine, table_path(log_dir))

        assert counted(reports, "merged_files") == [BUILDS]
        assert found == table_of(log_dir)
