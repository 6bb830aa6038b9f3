"""verify --table: counts and hashes of ranges of offsets in the table and in the log."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from sparklog.maintenance.verification import verify_table
from sparklog.maintenance.verification.verify import verify
from sparklog.table.snapshot import DataFile
from tests.compaction import Compacted
from tests.logs import append
from tests.maintenance import make_unreadable, run
from tests.tables import WITH_TABLE, build, delta, topic_with_table


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A table that ends in the middle of its log."""
    log_dir = topic_with_table(tmp_path / "log")
    for time in range(3):
        for partition in range(2):
            append(log_dir, partition, [f"{time}a", None], timestamps=[time, time])
        if time < 2:
            build(log_dir)
    return log_dir


def told(log: Any, **options: Any) -> tuple[list[dict[str, int]], list[str]]:
    """Counters of the table's step, and everything that was wrong."""
    given = {"repair": False, "table": True, **options}
    reports = run(verify, log, **given)[1]
    outcomes = [one.outcome for one in reports if one.outcome]
    counts = [dict(one.counts) for one in outcomes if "ranges" in one.counts]
    return counts, [line for one in outcomes for line in one.problems]


class TestVerify:
    def test_finds_no_difference(self, log_dir: str) -> None:
        assert told(log_dir) == ([{"ranges": 2, "records": 8, "different": 0}], [])

    def test_reads_files_whose_statistics_have_other_columns(self, log_dir: str) -> None:
        delta(log_dir).alter.set_table_properties({"delta.dataSkippingStatsColumns": "timestamp"})
        delta(log_dir).optimize.compact()

        assert told(log_dir) == ([{"ranges": 2, "records": 8, "different": 0}], [])

    def test_compares_in_parts(self, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(verify_table, "RANGE_BYTES", 1)

        assert told(log_dir) == ([{"ranges": 4, "records": 8, "different": 0}], [])

    def test_has_a_part_of_a_range_in_memory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = topic_with_table(tmp_path / "large", 1)
        for _ in range(16):
            append(log_dir, 0, ["v" * 10**6])
        build(log_dir)
        monkeypatch.setattr(verify_table, "PART_BYTES", 1)
        pool = pa.proxy_memory_pool(usual := pa.default_memory_pool())
        pa.set_memory_pool(pool)
        try:
            found = told(log_dir)
        finally:
            pa.set_memory_pool(usual)

        assert found == ([{"ranges": 1, "records": 16, "different": 0}], [])
        assert pool.max_memory() < 8 * 2**20

    def test_looks_at_no_table_unless_asked_to(self, log_dir: str) -> None:
        assert told(log_dir, table=False) == ([], [])

    def test_finds_none_where_there_is_none(self, tmp_path: Path) -> None:
        without = topic_with_table(tmp_path / "other", sparklog_table_enable="false")
        not_yet = topic_with_table(tmp_path / "log")

        assert told(without) == told(not_yet) == ([], [])

    def test_shows_what_it_would_compare(self, log_dir: str) -> None:
        reports = run(verify, log_dir, dry_run=True, repair=False, table=True)[1]

        assert [row["what"] for row in reports[-1].rows] == [
            "table of t-0, offsets [0, 4)",
            "table of t-1, offsets [0, 4)",
        ]

    def test_names_the_range_that_is_different(self, log_dir: str) -> None:
        rows = delta(log_dir).to_pyarrow_table()
        at = rows.schema.get_field_index("value")
        mask = pc.and_(pc.equal(rows["partition"], 1), pc.equal(rows["offset"], 2))
        changed = rows.set_column(at, "value", pc.if_else(mask, b"forged", rows["value"]))
        write_deltalake(delta(log_dir), changed, mode="overwrite")
        (counts,), problems = told(log_dir)

        assert counts["different"] == 1
        assert "WRITE by delta-rs" in problems[0]
        assert problems[1].startswith("t-1: offsets [0, 4): the log has 4 records with hash")

    def test_tells_of_a_restored_log_that_has_outgrown_its_table(
        self, log_dir: str, tmp_path: Path
    ) -> None:
        backup = Path(shutil.copytree(log_dir, tmp_path / "backup"))
        append(log_dir, 0, ["lost"])
        build(log_dir)
        table = Path(delta(log_dir).table_uri.removeprefix("file://"))
        restored = backup / table.relative_to(log_dir)
        shutil.rmtree(restored)
        shutil.copytree(table, restored)
        append(backup, 0, ["other", "records"])
        _, problems = told(str(backup))

        assert [line.partition(":")[0] for line in problems] == ["t-0"]

    def test_tells_what_it_cannot_read(self, log_dir: str) -> None:
        for uri in delta(log_dir).file_uris():
            Path(uri.removeprefix("file://")).write_bytes(b"nothing")

        problems = told(log_dir)[1]
        assert ["no sound Parquet file" in line for line in problems] == [True, True]

    def test_a_table_that_cannot_be_opened_stops_nothing_else(self, log_dir: str) -> None:
        entry = next(Path(log_dir).glob("t-*/table/_delta_log/*.json"))
        entry.write_bytes(b"{")

        assert ["cannot be understood" in line for line in told(log_dir)[1]] == [True]

    def test_leaves_out_what_compaction_has_cleaned(self) -> None:
        log = Compacted(**{name.replace(".", "_"): one for name, one in WITH_TABLE.items()})
        log.put("a=1", "a=2").put("a=3").put("b=1")
        build(log.context)
        log.compact()

        assert told(log.partition)[1] == []

    def test_reads_what_others_have_rewritten(self, log_dir: str) -> None:
        delta(log_dir).optimize.compact()

        assert told(log_dir) == ([{"ranges": 2, "records": 8, "different": 0}], [])

    def test_reads_files_without_statistics(self, log_dir: str) -> None:
        for uri in delta(log_dir).file_uris():
            path = uri.removeprefix("file://")
            pq.write_table(pq.read_table(path), path, write_statistics=False)

        assert verify_table._may_hold(DataFile("x", 1, 1, None, {}), 0, 0, 1)
        assert told(log_dir) == ([{"ranges": 2, "records": 8, "different": 0}], [])

    def test_damaged_metadata_is_told_once(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_unreadable(monkeypatch, "t")

        assert told(log_dir)[1] == ["t: a run cannot be read"]
