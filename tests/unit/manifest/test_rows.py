"""One manifest file: its name, its rows by kind, its statistics."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptMetadataError
from sparklog.log.names import uuid7
from sparklog.manifest.changes import state_row
from sparklog.manifest.rows import (
    COMMIT,
    LIVE,
    REMOVED,
    SMALL_ROWS,
    FileName,
    ManifestRows,
    delta_statistics,
    file_name,
    from_parquet,
    parse_file_name,
    read_parquet,
    to_parquet,
)
from sparklog.manifest.store import PartitionState
from sparklog.manifest.tables import RECEIPT, TOPIC, manifest_table, segment_row
from tests.manifests import NOW_MS, at, segment


class TestFileNames:
    @given(st.sampled_from([COMMIT, LIVE, REMOVED, RECEIPT]), st.integers(1, 10**10))
    def test_tell_role_and_rows(self, role: str, rows: int) -> None:
        """Goal: what opening a topic reads is told by names alone.

        Method: any role and count, there and back.
        """
        name = file_name(role, rows, uuid7(NOW_MS, bytes(10)))

        assert parse_file_name(name) == FileName(role, rows)

    @pytest.mark.parametrize(
        "name", ["part-00000-x.parquet", "live-1-x.parquet", "topic-00000001-x.parquet", ""]
    )
    def test_of_others_are_read_as_a_commit(self, name: str) -> None:
        assert parse_file_name(name) == FileName(COMMIT, 1)


class TestRows:
    def test_are_told_apart(self) -> None:
        live, gone = at(0, segment()), at(10, segment(removed_ms=5))
        rows = ManifestRows(
            manifest_table(
                [
                    segment_row(live),
                    segment_row(gone),
                    state_row(0, PartitionState(log_start_offset=3, log_end_offset=15)),
                    state_row(0, PartitionState(leader_epoch=2)),
                    state_row(4, PartitionState(log_end_offset=1)),
                    {"kind": TOPIC, "closed_ms": 7},
                    {"kind": TOPIC, "vacuum_horizon_ms": 8},
                    {"kind": RECEIPT, "app_id": "a"},
                ]
            )
        )

        assert rows.live_paths == {live.log_path}
        assert rows.removed.column("log_path").to_pylist() == [gone.log_path]
        assert rows.states == {0: PartitionState(3, 20, 2), 4: PartitionState(log_end_offset=1)}
        assert (rows.closed_ms, rows.vacuum_horizon_ms) == (7, 8)
        assert rows.receipts.num_rows == 1

    def test_of_nothing_say_nothing(self) -> None:
        rows = ManifestRows(manifest_table([]))

        assert (rows.states, rows.closed_ms, rows.vacuum_horizon_ms) == ({}, None, 0)
        assert rows.live.num_rows == rows.removed.num_rows == 0

    def test_a_partition_ends_where_its_last_segment_does(self) -> None:
        entries = [at(10, segment(1)), at(0, segment(1)), at(5, segment(0))]
        rows = ManifestRows(manifest_table(map(segment_row, entries)))

        assert {number: state.log_end_offset for number, state in rows.states.items()} == {
            0: 15,
            1: 20,
        }


class TestFiles:
    @pytest.mark.parametrize("count", [1, SMALL_ROWS, SMALL_ROWS + 1])
    def test_hold_the_rows(self, count: int) -> None:
        table = manifest_table([segment_row(segment()) for _ in range(count)])
        written = read_parquet(memoryview(to_parquet(table)), "t")

        paths = table.column("log_path").to_pylist()
        assert written.column("log_path").to_pylist() == paths

    @pytest.mark.parametrize("keep", [0, 10, -10])
    def test_that_cannot_be_read_are_told_by_name(self, keep: int) -> None:
        data = to_parquet(manifest_table([segment_row(segment())]))[:keep]

        with pytest.raises(CorruptMetadataError, match=r"t/x\.parquet cannot be read"):
            from_parquet(memoryview(data), "t/x.parquet")


class TestStatistics:
    def test_tell_kinds_and_live_rows_apart(self) -> None:
        table = manifest_table([segment_row(segment(removed_ms=5)), {"kind": RECEIPT}])

        assert json.loads(delta_statistics(table)) == {
            "numRecords": 2,
            "minValues": {"kind": "receipt"},
            "maxValues": {"kind": "segment"},
            "nullCount": {"kind": 0, "removed_ms": 1},
        }
