"""A Delta log after a power cut: mended, it says what the last sound version said."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import CommitConflictError, CorruptMetadataError, StorageError
from sparklog.manifest import delta_rs
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.manifest.torn import POINTER, put_torn_aside, torn_files
from sparklog.manifest.turn import my_turn
from sparklog.storage import open_files
from sparklog.storage.local import LocalFiles
from tests.manifests import DIRECTORY, append, delta_store, segment, spans

INTERVAL = 5
COMMITS = 12
"""Version 12 is the last one; 4 and 9 have checkpoints, too young to have been cleaned up after."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalFiles:
    """A manifest of 12 segments of 10 records."""
    monkeypatch.setattr(delta_rs, "CHECKPOINT_INTERVAL", INTERVAL)
    monkeypatch.setitem(delta_rs.TABLE_PROPERTIES, "delta.checkpointInterval", str(INTERVAL))
    files = LocalFiles(str(tmp_path))
    store = delta_store(files)
    for _ in range(COMMITS):
        append(store, segment())
    return files


def entry(version: int) -> str:
    return f"{version:020}.json"


def checkpoint(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def tear(files: LocalFiles, *names: str, share: float = 0) -> None:
    """Leave only so much of the beginning of files of the log."""
    for name in names:
        path = log(files) / name
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])


def log(files: LocalFiles) -> Path:
    return Path(files.uri, DIRECTORY, "_delta_log")


def mended(files: LocalFiles) -> list[str]:
    """The names of what was put aside."""
    put = put_torn_aside(files, DIRECTORY, ManualClock())
    assert all(Path(files.uri, path).exists() for path in put)
    assert torn_files(files, DIRECTORY) == []
    return [path.removeprefix(f"{DIRECTORY}/_torn/") for path in put]


def records(files: LocalFiles) -> int:
    """How many records the manifest has, after one more commit has shown that it can be used."""
    store = DeltaManifestStore(files, DIRECTORY, ManualClock())
    (*_, (_, end)) = spans(store.snapshot())
    append(store, segment())
    assert spans(store.snapshot())[-1] == (end, end + 10)
    return end


class TestASoundLog:
    def test_has_nothing_torn(self, files: LocalFiles) -> None:
        assert mended(files) == []
        assert records(files) == COMMITS * 10

    def test_no_table_has_nothing_torn(self, tmp_path: Path) -> None:
        assert torn_files(LocalFiles(str(tmp_path)), DIRECTORY) == []

    def test_an_object_store_tears_nothing(self) -> None:
        assert torn_files(open_files("s3://bucket/log"), DIRECTORY) == []


class TestTorn:
    @pytest.mark.parametrize("share", [0, 0.5, 0.99])
    def test_a_checkpoint(self, files: LocalFiles, share: float) -> None:
        tear(files, checkpoint(9), share=share)

        assert mended(files) == [POINTER, checkpoint(9)]
        assert records(files) == COMMITS * 10

    @pytest.mark.parametrize("share", [0, 0.5])
    def test_the_pointer(self, files: LocalFiles, share: float) -> None:
        tear(files, POINTER, share=share)

        assert mended(files) == [POINTER]
        assert records(files) == COMMITS * 10

    @pytest.mark.parametrize("text", ["[]", "{}", '{"version": "x"}', '{"version": null}'])
    def test_a_pointer_to_nothing(self, files: LocalFiles, text: str) -> None:
        (log(files) / POINTER).write_text(text, encoding="ascii")

        assert mended(files) == [POINTER]

    @pytest.mark.parametrize("share", [0, 0.5])
    def test_an_entry_goes_with_all_that_follow(self, files: LocalFiles, share: float) -> None:
        tear(files, entry(11), share=share)

        assert mended(files) == [entry(12), entry(11)]
        assert records(files) == 100

    def test_a_missing_entry_too(self, files: LocalFiles) -> None:
        (log(files) / entry(11)).unlink()

        assert mended(files) == [entry(12)]
        assert records(files) == 100

    def test_a_line_that_is_no_object(self, files: LocalFiles) -> None:
        (log(files) / entry(12)).write_text("{}\n[]\n", encoding="ascii")

        assert mended(files) == [entry(12)]

    def test_the_entry_that_a_checkpoint_begins_with(self, files: LocalFiles) -> None:
        tear(files, entry(9))

        assert mended(files) == [POINTER, checkpoint(9), *map(entry, (12, 11, 10, 9))]
        assert records(files) == 80

    def test_twice_the_same_version(self, files: LocalFiles) -> None:
        for name in (entry(12), f"{entry(12)}.1", f"{entry(12)}.2"):
            tear(files, entry(12))
            assert mended(files) == [name]
            append(DeltaManifestStore(files, DIRECTORY, ManualClock()), segment())

        assert records(files) == COMMITS * 10

    def test_too_much_is_an_error_and_nothing_is_moved(self, files: LocalFiles) -> None:
        tear(files, checkpoint(4), checkpoint(9), entry(0))
        before = names(log(files))

        with pytest.raises(CorruptMetadataError, match=f"^{DIRECTORY}: the Delta log has neither"):
            put_torn_aside(files, DIRECTORY, ManualClock())
        assert names(log(files)) == before


class TestAnEmptyEntry:
    """To delta-rs a commit of nothing; behind it nobody may go on."""

    def test_is_refused_when_a_table_is_opened(self, files: LocalFiles) -> None:
        tear(files, entry(11))

        with pytest.raises(CorruptMetadataError, match=f"{entry(11)} is empty: after a power cut"):
            DeltaManifestStore(files, DIRECTORY, ManualClock()).snapshot()

    def test_is_refused_when_it_is_met_later(self, files: LocalFiles) -> None:
        store = DeltaManifestStore(files, DIRECTORY, ManualClock())
        store.snapshot()
        (log(files) / entry(13)).touch()

        for _ in range(2):
            with pytest.raises(CorruptMetadataError, match=entry(13)):
                append(store, segment())


class TestStillborn:
    @pytest.fixture
    def unborn(self, tmp_path: Path) -> LocalFiles:
        """A table whose creation was cut off."""
        files = LocalFiles(str(tmp_path / "other"))
        log(files).mkdir(parents=True)
        (log(files) / entry(0)).touch()
        return files

    def test_is_put_aside(self, unborn: LocalFiles) -> None:
        assert mended(unborn) == [entry(0)]

    def test_may_be_made_again(self, unborn: LocalFiles) -> None:
        append(delta_store(unborn), segment())

        assert records(unborn) == 10

    def test_is_nothing_that_has_more(self, files: LocalFiles) -> None:
        tear(files, checkpoint(4), checkpoint(9), entry(0))

        with pytest.raises(StorageError, match="create"):
            delta_store(files)


class TestWhileOthersCommit:
    def test_nothing_is_moved(self, files: LocalFiles) -> None:
        tear(files, entry(12))
        before = names(log(files))

        with (
            my_turn(files, DIRECTORY, ManualClock()),
            pytest.raises(CommitConflictError, match="others are committing"),
        ):
            put_torn_aside(files, DIRECTORY, ManualClock())
        assert names(log(files)) == before

    def test_a_sound_log_is_no_conflict(self, files: LocalFiles) -> None:
        with my_turn(files, DIRECTORY, ManualClock()):
            assert mended(files) == []


def names(folder: Path) -> Iterable[str]:
    return {path.name for path in folder.iterdir()}
