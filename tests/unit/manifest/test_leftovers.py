"""Files of a table that nobody needs: an hour later by Delta's log, or by the storage's clock."""

import os
from pathlib import Path

import pytest

from sparklog.clock import Clock, ManualClock, SystemClock
from sparklog.errors import StorageError
from sparklog.manifest.cluster import CLUSTER_METADATA, DeltaClusterStore
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.storage.local import LocalFiles
from tests.manifests import DIRECTORY, append, delta_store, segment

HOUR_MS = 3_600_000
LONG_AGO_SECONDS = 1_600_000_000


def store_of(folder: Path, age_ms: int = 0) -> DeltaManifestStore:
    """A store with files that left the table `age_ms` ago."""
    clock = ManualClock(SystemClock().now_ms() - age_ms)
    store = delta_store(folder, clock)
    for _ in range(12):
        append(store, segment(made_ms=clock.now_ms()))
    return store


def names(folder: Path) -> set[str]:
    return {f"{DIRECTORY}/{path.name}" for path in (folder / DIRECTORY).glob("*.parquet")}


def make_old(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (LONG_AGO_SECONDS, LONG_AGO_SECONDS))


class TestManifest:
    def test_what_left_the_table_an_hour_ago_goes(self, tmp_path: Path) -> None:
        store = store_of(tmp_path, HOUR_MS + 60_000)
        left = store.leftovers()

        assert len(left) == 9
        assert left == sorted(names(tmp_path) - {f"{DIRECTORY}/{n}" for n in in_use(store)})

    def test_what_left_it_just_now_stays_however_old_its_file(self, tmp_path: Path) -> None:
        store = store_of(tmp_path)
        make_old(*(tmp_path / DIRECTORY).glob("*.parquet"))

        assert store.leftovers() == []

    def test_what_was_never_part_of_it_goes_by_the_age_of_its_file(self, tmp_path: Path) -> None:
        store = store_of(tmp_path)
        orphan = tmp_path / DIRECTORY / "commit-00000001-orphan.parquet"
        orphan.write_bytes(b"")
        young = store.leftovers()
        make_old(orphan)

        assert young == []
        assert store.leftovers() == [f"{DIRECTORY}/{orphan.name}"]

    def test_what_is_no_file_of_a_table_stays(self, tmp_path: Path) -> None:
        store = store_of(tmp_path)
        notes = tmp_path / DIRECTORY / "notes.txt"
        notes.write_bytes(b"")
        make_old(notes)

        assert store.leftovers() == []

    def test_are_those_of_the_newest_version(self, tmp_path: Path) -> None:
        store = store_of(tmp_path)
        other = delta_store(tmp_path, SystemClock())
        append(other, segment())
        make_old(*(tmp_path / DIRECTORY).glob("*.parquet"))

        assert store.leftovers() == []

    def test_a_storage_that_fails_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise OSError("no such luck")

        store = store_of(tmp_path)
        monkeypatch.setattr("deltalake.DeltaTable.vacuum", fail)

        with pytest.raises(StorageError, match="look for old files of topic/manifest: no such"):
            store.leftovers()


class TestClusterMetadata:
    @pytest.mark.parametrize(("age_ms", "count"), [(0, 0), (HOUR_MS + 60_000, 2)])
    def test_goes_after_an_hour(self, tmp_path: Path, age_ms: int, count: int) -> None:
        clock: Clock = ManualClock(SystemClock().now_ms() - age_ms)
        store = DeltaClusterStore.create(LocalFiles(str(tmp_path)), clock)
        for _ in range(3):
            store.commit(lambda state: state.with_topics())
        left = store.leftovers()

        assert len(left) == count
        assert all(path.startswith(f"{CLUSTER_METADATA}/live-") for path in left)


def in_use(store: DeltaManifestStore) -> list[str]:
    store.snapshot()
    return store._log.file_names()
