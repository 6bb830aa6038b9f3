"""Which files are folded, and into what."""

from hypothesis import given
from hypothesis import strategies as st

from sparklog.log.names import uuid7
from sparklog.manifest.changes import state_row
from sparklog.manifest.folding import FAN, files_to_fold, folded, rows_of
from sparklog.manifest.rows import COMMIT, LIVE, REMOVED, file_name
from sparklog.manifest.store import PartitionState
from sparklog.manifest.tables import RECEIPT, TOPIC, manifest_table, segment_row
from tests.manifests import NOW_MS, at, segment


def files(role: str, *rows: int) -> list[str]:
    return [
        file_name(role, count, uuid7(NOW_MS, bytes([0] * 9 + [i]))) for i, count in enumerate(rows)
    ]


class TestFilesToFold:
    def test_are_those_of_a_full_tier(self) -> None:
        small, large = files(COMMIT, *[3] * (FAN - 1)), files(LIVE, 500, 500)

        assert files_to_fold(small + large) == []
        assert files_to_fold(small + files(LIVE, 9) + large) == small + files(LIVE, 9)

    def test_keep_roles_apart(self) -> None:
        mixed = files(REMOVED, *[3] * 5) + files(RECEIPT, *[3] * 5) + files(LIVE, *[3] * 5)

        assert files_to_fold(mixed) == []
        assert files_to_fold(mixed + files(REMOVED, *[4] * 5)) == (
            files(REMOVED, *[3] * 5) + files(REMOVED, *[4] * 5)
        )

    def test_are_no_long_files_of_receipts(self) -> None:
        assert files_to_fold(files(RECEIPT, *[10_000] * FAN)) == []
        assert files_to_fold(files(RECEIPT, *[9_999] * FAN)) == files(RECEIPT, *[9_999] * FAN)

    @given(st.lists(st.integers(1, 10**7), max_size=200))
    def test_leave_few(self, rows: list[int]) -> None:
        """Goal: what is not folded is bounded by the number of tiers, not of commits.

        Method: files of any sizes.
        """
        names = [
            file_name(COMMIT, count, uuid7(NOW_MS, i.to_bytes(10, "big")))
            for i, count in enumerate(rows)
        ]

        assert len(names) - len(files_to_fold(names)) <= 8 * (FAN - 1)


class TestFolded:
    def test_separates_what_opening_reads_from_the_rest(self) -> None:
        live, gone = at(0, segment()), at(10, segment(removed_ms=5))
        rows = [
            segment_row(live),
            segment_row(gone),
            state_row(0, PartitionState(leader_epoch=1)),
            state_row(0, PartitionState(leader_epoch=2)),
            {"kind": TOPIC, "closed_ms": 4},
            {"kind": TOPIC, "closed_ms": 3, "vacuum_horizon_ms": 2},
            {"kind": RECEIPT, "app_id": "a", "version": 1},
        ]
        done = {
            role: table.to_pylist() for role, table in folded(rows_of([manifest_table(rows)]), 0)
        }

        assert [row["kind"] for row in done[LIVE]] == ["segment", "partition", "topic"]
        assert done[LIVE][1]["log_end_offset"] == 20
        assert done[LIVE][1]["leader_epoch"] == 2
        assert (done[LIVE][2]["closed_ms"], done[LIVE][2]["vacuum_horizon_ms"]) == (4, 2)
        assert [row["log_path"] for row in done[REMOVED]] == [gone.log_path]
        assert [row["app_id"] for row in done[RECEIPT]] == ["a"]

    def test_writes_no_file_without_rows(self) -> None:
        expired = manifest_table([{"kind": RECEIPT, "app_id": "key", "expires_ms": 4}])

        assert folded(rows_of([expired]), 5) == []
        assert [role for role, _ in folded(rows_of([expired]), 4)] == [RECEIPT]
