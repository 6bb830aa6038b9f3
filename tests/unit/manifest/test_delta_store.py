"""What only the Delta store has: files, what of them is read, and Delta's own transactions."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import CorruptMetadataError, MissingFileError, SparklogWarning
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.manifest.rows import COMMIT, LIVE, REMOVED, parse_file_name
from sparklog.manifest.store import Committed
from sparklog.manifest.tables import RECEIPT
from sparklog.model import OffsetRange
from sparklog.storage.local import LocalFiles
from tests.manifests import (
    DIRECTORY,
    append,
    appending,
    at,
    changing,
    delta_store,
    indexed,
    never,
    removing,
    segment,
    spans,
)
from tests.tracing import TracingFiles


@pytest.fixture
def store(tmp_path: Path) -> DeltaManifestStore:
    return delta_store(tmp_path, ManualClock(SystemClock().now_ms()))


def roles(store: DeltaManifestStore) -> set[str]:
    return {parse_file_name(name).role for name in store._log.file_names()}


def data_changes(tmp_path: Path, version: int) -> list[tuple[str, bool]]:
    """(role of the file, dataChange) of what a version added and removed."""
    text = (tmp_path / DIRECTORY / "_delta_log" / f"{version:020}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    files = [action.get("add") or action.get("remove") for action in actions]
    return [(parse_file_name(file["path"]).role, file["dataChange"]) for file in files if file]


class TestOpening:
    def test_reads_live_rows_only(self, store: DeltaManifestStore, tmp_path: Path) -> None:
        for number in range(20):
            entry = segment()
            append(store, entry, app_id=f"key {number}")
            store.commit(removing(entry.log_path))
        append(store, segment(records=1))
        store.snapshot()
        files = TracingFiles(LocalFiles(str(tmp_path)))
        opened = DeltaManifestStore(files, DIRECTORY, ManualClock())

        read = [op.path for op in (opened.snapshot(), files.trace)[1] if op.kind == "read"]
        found = {parse_file_name(path.rpartition("/")[2]).role for path in read}
        assert {REMOVED, RECEIPT} <= roles(store)
        assert found <= {COMMIT, LIVE}
        assert spans(opened.snapshot()) == [(200, 201)]
        assert opened.snapshot().state(0).log_end_offset == 201

    def test_is_cheap_when_nothing_was_committed(self, store: DeltaManifestStore) -> None:
        append(store, segment())

        assert store.snapshot() is store.snapshot()

    def test_of_a_file_that_is_gone(self, store: DeltaManifestStore, tmp_path: Path) -> None:
        append(store, segment())
        (path,) = (tmp_path / DIRECTORY).glob("*.parquet")
        path.unlink()

        with pytest.raises(MissingFileError, match=path.name):
            delta_store(tmp_path)

    def test_of_rows_of_an_unknown_kind(self, store: DeltaManifestStore, tmp_path: Path) -> None:
        write_deltalake(
            str(tmp_path / DIRECTORY),
            pa.table({"kind": ["alias"]}, pa.schema([pa.field("kind", pa.string(), False)])),
            mode="append",
            schema_mode="merge",
        )

        with pytest.raises(CorruptMetadataError, match="unknown kind alias"):
            store.snapshot()

    def test_of_a_table_that_got_a_column(self, store: DeltaManifestStore, tmp_path: Path) -> None:
        append(store, segment())
        (path,) = (tmp_path / DIRECTORY).glob("*.parquet")
        table = pq.read_table(path)
        pq.write_table(table.append_column("mood", pa.array(["fine"])), path)

        assert spans(delta_store(tmp_path).snapshot()) == [(0, 10)]


class TestTransactions:
    def test_of_delta_tell_first_and_later_versions(self, store: DeltaManifestStore) -> None:
        first = append(store, segment(), app_id="a", version=3)
        later = append(store, segment(), app_id="a", version=4)

        assert store._log.refresh() == 2
        assert store._log.transaction_version("a") == 4
        assert (first.replayed, later.ranges) == (False, (OffsetRange(0, 10, 20),))
        assert store.commit(never, app_id="a", version=4).ranges == later.ranges
        with pytest.warns(SparklogWarning, match="up to 4"):
            assert store.commit(never, app_id="a", version=3) == Committed(2, None, True)

    def test_of_keys_are_none(self, store: DeltaManifestStore) -> None:
        append(store, segment(), app_id="key")

        assert store.commit(never, app_id="key").ranges == (OffsetRange(0, 0, 10),)
        assert store._log.transaction_version("key") is None

    def test_that_delta_has_forgotten_are_known_by_their_receipts(self, tmp_path: Path) -> None:
        """A stream that stood still for a year goes on with the batch it stopped at."""
        year_ms = 365 * 24 * 3600 * 1000
        store = delta_store(tmp_path, ManualClock(SystemClock().now_ms() - year_ms))
        append(store, segment(), app_id="a", version=3)
        store.snapshot()

        assert store._log.transaction_version("a") is None
        assert store.commit(never, app_id="a", version=3).ranges == (OffsetRange(0, 0, 10),)
        assert append(store, segment(), app_id="a", version=4).ranges == (OffsetRange(0, 10, 20),)

    def test_that_others_forgot_to_leave_a_receipt_of_are_skipped(
        self, store: DeltaManifestStore
    ) -> None:
        store.snapshot()
        now_ms = SystemClock().now_ms()
        store._log.commit([], now_ms=now_ms, transaction=("a", 3))

        with pytest.warns(SparklogWarning, match="its receipt is gone"):
            assert store.commit(never, app_id="a", version=3) == Committed(1, None, True)


class TestFolding:
    def test_rewrites_the_file_of_a_touched_row_only(self, store: DeltaManifestStore) -> None:
        first, second = segment(), segment()
        append(store, first)
        append(store, second)
        store.snapshot()
        before = set(store._log.file_names())
        store.commit(changing(replace=[indexed(first)]))
        store.snapshot()
        after = set(store._log.file_names())

        assert len(before - after) == 1
        assert [parse_file_name(name).role for name in after - before] == [LIVE]

    def test_alone_is_no_change_of_data(self, store: DeltaManifestStore, tmp_path: Path) -> None:
        """Whoever streams from the table sees new rows once, and touched ones anew."""
        entries = [segment() for _ in range(10)]
        for entry in entries:
            append(store, entry)
        folding = data_changes(tmp_path, 10)
        store.commit(changing(replace=[indexed(entries[0])]))

        assert folding == [("commit", True), ("live", False)] + [("commit", False)] * 9
        assert data_changes(tmp_path, 11) == [("live", True), ("live", True)]

    def test_of_files_that_are_touched_and_due_at_once(self, store: DeltaManifestStore) -> None:
        entries = [segment() for _ in range(9)]
        for entry in entries:
            append(store, entry)
        touched = [entries[0].log_path, entries[4].log_path]
        store.commit(
            appending(
                segment(), remove=touched, removed_ms=1, replace=[at(10, indexed(entries[1]))]
            )
        )

        expected = [(start, start + 10) for start in range(0, 100, 10) if start not in (0, 40)]
        assert spans(store.snapshot()) == expected
        assert roles(store) == {COMMIT, LIVE, REMOVED}
        assert len(store._log.file_names()) == 3
