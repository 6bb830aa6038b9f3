"""What is remembered of idempotent writes, and for how long."""

import pytest

from sparklog.errors import SparklogWarning
from sparklog.manifest.receipts import Receipts, Transaction, kept_receipts, replay
from sparklog.manifest.store import Committed, Receipt
from sparklog.manifest.tables import RECEIPT, manifest_table
from sparklog.model import OffsetRange

RANGES = (OffsetRange(0, 5, 9),)
ROW = {"kind": RECEIPT, "app_id": "a", "partition": 0, "start": 5, "end": 9, "partition_count": 2}


def rows(*versions: int | None, **columns: object) -> object:
    return manifest_table([{**ROW, "version": version, **columns} for version in versions])


class TestReceipts:
    def test_are_found_by_version_in_whatever_file(self) -> None:
        receipts = Receipts([rows(3), rows(4, partition=1), rows(4)], "a", 0)

        assert receipts.get(3) == Receipt(RANGES, 2)
        assert receipts.get(4) == Receipt((*RANGES, OffsetRange(1, 5, 9)), 2)
        assert receipts.get(5) is receipts.get(None) is None
        assert receipts.highest_version == 4

    def test_of_others_are_none_of_mine(self) -> None:
        receipts = Receipts([rows(3)], "b", 0)

        assert (receipts.get(3), receipts.highest_version) == (None, None)

    def test_expire(self) -> None:
        table = rows(None, expires_ms=10)

        assert Receipts([table], "a", 10).get(None) == Receipt(RANGES, 2)
        assert Receipts([table], "a", 11).get(None) is None

    def test_of_a_write_without_records_have_no_ranges(self) -> None:
        empty = rows(1, partition=None, start=None, end=None)

        assert Receipts([empty], "a", 0).get(1) == Receipt((), 2)


class TestKeptReceipts:
    def test_are_the_highest_of_each_application_and_the_unexpired(self) -> None:
        table = manifest_table(
            [
                {**ROW, "version": -3},
                {**ROW, "version": -2},
                {**ROW, "version": -2, "partition": 1},
                {**ROW, "app_id": "b", "version": 0},
                {**ROW, "app_id": "old", "expires_ms": 4},
                {**ROW, "app_id": "new", "expires_ms": 5},
            ]
        )
        kept = kept_receipts(table, 5).select(["app_id", "version", "partition"]).to_pylist()

        assert [tuple(row.values()) for row in kept] == [
            ("new", None, 0),
            ("a", -2, 0),
            ("a", -2, 1),
            ("b", 0, 0),
        ]


class TestReplay:
    @pytest.mark.parametrize(
        ("version", "highest", "receipt"), [(None, 7, None), (3, None, None), (3, 2, None)]
    )
    def test_of_the_first_is_none(
        self, version: int | None, highest: int | None, receipt: Receipt | None
    ) -> None:
        assert replay(9, Transaction("a", version), highest, receipt) is None

    @pytest.mark.parametrize(("version", "highest"), [(None, None), (None, 7), (7, 7)])
    def test_is_what_the_receipt_says(self, version: int | None, highest: int | None) -> None:
        answer = replay(9, Transaction("a", version), highest, Receipt(RANGES, 2))

        assert answer == Committed(9, RANGES, True, 2)

    @pytest.mark.parametrize(
        ("highest", "receipt", "why"),
        [
            (3, None, "up to 3, and its receipt is gone"),
            (4, None, "up to 4, and offsets are told of the highest only"),
            (4, Receipt((), 1), "up to 4, and offsets are told of the highest only"),
        ],
    )
    def test_whose_offsets_are_not_told_is_skipped(
        self, highest: int, receipt: Receipt | None, why: str
    ) -> None:
        with pytest.warns(SparklogWarning, match=f"version 3 of 'a' was committed before, {why}"):
            assert replay(9, Transaction("a", 3), highest, receipt) == Committed(9, None, True)
