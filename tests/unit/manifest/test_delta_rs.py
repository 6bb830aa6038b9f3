"""The one importer of deltalake: what it says when something is wrong."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    MissingFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)
from sparklog.manifest import delta_rs
from sparklog.manifest.delta_rs import TABLE_PROPERTIES, DeltaLog, storage_error
from sparklog.manifest.tables import MANIFEST_DESCRIPTION, MANIFEST_SCHEMA
from sparklog.storage.local import LocalFiles
from tests.manifests import NOW_MS, delta_store

DIRECTORY = "table"


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    files = LocalFiles(str(tmp_path))
    return DeltaLog.create(files, DIRECTORY, MANIFEST_SCHEMA, MANIFEST_DESCRIPTION)


class TestCreate:
    def test_makes_a_plain_table(self, log: DeltaLog, tmp_path: Path) -> None:
        made = DeltaTable(str(tmp_path / DIRECTORY))

        assert log.version == -1
        assert log.description == MANIFEST_DESCRIPTION
        assert made.metadata().configuration == TABLE_PROPERTIES
        assert made.protocol().min_reader_version == 1
        assert made.protocol().min_writer_version == 2

    def test_that_somebody_else_is_faster_with_is_done(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def create(*_: object, **__: object) -> None:
            raise CommitFailedError("version 0 is there")

        monkeypatch.setattr(DeltaTable, "create", create)
        made = DeltaLog.create(LocalFiles(str(tmp_path)), DIRECTORY, MANIFEST_SCHEMA, "words")

        assert made.version == -1

    def test_where_no_table_can_be(self, tmp_path: Path) -> None:
        (tmp_path / DIRECTORY).write_text("a file")

        with pytest.raises(StorageError, match="create table: "):
            DeltaLog.create(LocalFiles(str(tmp_path)), DIRECTORY, MANIFEST_SCHEMA, "words")


class TestRefresh:
    def test_of_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(MissingFileError, match="table: no Delta table here"):
            DeltaLog(LocalFiles(str(tmp_path)), DIRECTORY, MANIFEST_SCHEMA).refresh()

    def test_of_garbage(self, log: DeltaLog, tmp_path: Path) -> None:
        log.refresh()
        (tmp_path / DIRECTORY / "_delta_log" / f"{1:020}.json").write_text("{garbage")

        with pytest.raises(CorruptMetadataError, match="table: the Delta log cannot be read"):
            log.refresh()

    def test_asks_delta_rs_only_when_there_is_a_next_entry(
        self, log: DeltaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.refresh()
        monkeypatch.setattr(DeltaTable, "update_incremental", Mock(side_effect=AssertionError))
        unchanged = log.refresh()
        monkeypatch.undo()
        DeltaLog(LocalFiles(str(tmp_path)), DIRECTORY, MANIFEST_SCHEMA).commit([], now_ms=NOW_MS)

        assert (unchanged, log.refresh()) == (0, 1)

    def test_opens_anew_when_it_cannot_go_on(
        self, log: DeltaLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.refresh()
        before = log._table
        log.commit([], now_ms=NOW_MS)

        def update(_: DeltaTable) -> None:
            raise DeltaError("entries are missing")

        monkeypatch.setattr(DeltaTable, "update_incremental", update)

        assert log.refresh() == 1
        assert log._table is not before

    def test_opens_again_when_an_entry_goes_under_its_hands(
        self, log: DeltaLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another process cleans up between the listing of the log and its reading."""
        opening = Mock(side_effect=[DeltaError("File not found"), DeltaTable(log._uri)])
        monkeypatch.setattr(delta_rs, "DeltaTable", opening)

        assert log.refresh() == 0
        assert opening.call_count == 2


class TestCommit:
    def test_on_an_old_version_is_a_conflict(self, log: DeltaLog, tmp_path: Path) -> None:
        log.refresh()
        other = DeltaLog(LocalFiles(str(tmp_path)), DIRECTORY, MANIFEST_SCHEMA)
        other.commit([], now_ms=NOW_MS)

        with pytest.raises(CommitConflictError, match="table: "):
            log.commit([], now_ms=NOW_MS)

    def test_that_cannot_be_written_is_told_and_the_table_opened_anew(
        self, log: DeltaLog, tmp_path: Path
    ) -> None:
        log.refresh()
        os.rename(tmp_path / DIRECTORY, tmp_path / "elsewhere")

        with pytest.raises(StorageError, match="commit to table: "):
            log.commit([], now_ms=NOW_MS)
        with pytest.raises(MissingFileError):
            log.refresh()

    @pytest.mark.parametrize(("version", "expected"), [(None, None), (3, 3)])
    def test_knows_a_transaction_by_its_version(
        self, log: DeltaLog, version: int | None, expected: int | None
    ) -> None:
        far_future_ms = 2 * NOW_MS
        log.commit([], now_ms=far_future_ms, transaction=("a", version))
        log.refresh()

        assert log.transaction_version("a") == expected


class TestStorageErrors:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("Generic error: No space left on device (os error 28)", StorageFullError),
            ("Disk quota exceeded (os error 122)", StorageFullError),
            ("Permission denied (os error 13)", StoragePermissionError),
            ("Read-only file system (os error 30)", StoragePermissionError),
            ("the server said 403 Forbidden", StoragePermissionError),
            ("connection reset", StorageError),
        ],
    )
    def test_are_told_by_their_prose(self, text: str, kind: type[StorageError]) -> None:
        error = storage_error("commit to table", OSError(text))

        assert type(error) is kind
        assert str(error) == f"commit to table: {text}"


class TestTablesThatAreNotOurs:
    def test_another_description_is_refused(self, tmp_path: Path) -> None:
        files = LocalFiles(str(tmp_path))
        DeltaLog.create(files, "topic/manifest", MANIFEST_SCHEMA, "sparklog manifest 2")

        with pytest.raises(CorruptMetadataError, match="'sparklog manifest 2'; this release reads"):
            delta_store(tmp_path, ManualClock())
