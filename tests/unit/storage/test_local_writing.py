"""Local files are written: made, synced, aborted, written behind; a full disk leaves no file."""

import ctypes
import errno
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparklog.errors import (
    ExistingFileError,
    MissingFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)
from sparklog.storage import local_file, write_back
from sparklog.storage.local import LocalFiles
from sparklog.storage.local_file import LocalNewFile
from tests.local_disks import fail


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "above" / "log dir"


@pytest.fixture
def files(root: Path) -> LocalFiles:
    return LocalFiles(str(root))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of what is fsynced, in order."""
    found: list[str] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    return found


def descriptor_of(file: LocalNewFile) -> int:
    """The descriptor that the next write uses."""
    assert file._descriptor is not None
    return file._descriptor


class TestCreate:
    def test_refuses_a_name_that_is_taken_at_once(self, files: LocalFiles) -> None:
        files.create("d/a").close()

        with pytest.raises(ExistingFileError, match="cannot create d/a in "):
            files.create("d/a")

    def test_refuses_a_link_that_leads_nowhere(self, files: LocalFiles, root: Path) -> None:
        root.mkdir(parents=True)
        (root / "a").symlink_to("b")

        with pytest.raises(ExistingFileError):
            files.create("a")

        assert not (root / "b").exists()

    def test_gives_the_permissions_that_the_umask_leaves(
        self, files: LocalFiles, root: Path
    ) -> None:
        files.write_new("a", b"")
        umask = os.umask(0)
        os.umask(umask)

        assert stat.S_IMODE((root / "a").stat().st_mode) == 0o666 & ~umask

    def test_syncs_the_directories_that_name_a_new_log_dir(
        self, files: LocalFiles, synced: list[str], tmp_path: Path
    ) -> None:
        files.write_new("d/a", b"")
        files.write_new("e/a", b"")

        assert synced == [str(tmp_path), str(tmp_path / "above")]

    def test_names_a_file_that_stands_where_a_directory_should(self, files: LocalFiles) -> None:
        files.write_new("a", b"")

        with pytest.raises(
            StorageError, match="cannot create a/b in .*: Not a directory"
        ) as caught:
            files.create("a/b")

        assert type(caught.value) is StorageError

    def test_is_not_allowed_where_nobody_may_make_files(self) -> None:
        # sysfs refuses new files to root as well.
        with pytest.raises(StoragePermissionError, match="create a.log in /sys/kernel: Permission"):
            LocalFiles("/sys/kernel").create("a.log")


class TestAbort:
    def test_deletes_only_what_it_created(self, files: LocalFiles, root: Path) -> None:
        file = files.create("a")
        (root / "a").unlink()
        (root / "a").write_bytes(b"another's")

        file.abort()

        assert (root / "a").read_bytes() == b"another's"

    def test_does_not_mind_that_the_file_is_gone(self, files: LocalFiles, root: Path) -> None:
        file = files.create("a")
        (root / "a").unlink()

        file.abort()

        assert list(root.iterdir()) == []


class TestDiskFull:
    """Each failure of a write is real: /dev/full, a limit on the size of files, a closed file."""

    @pytest.fixture
    def file(self, files: LocalFiles) -> LocalNewFile:
        file = files.create("d/a.log")
        assert isinstance(file, LocalNewFile)
        return file

    @pytest.fixture
    def limit(self) -> Iterator[int]:
        """No file may grow beyond this."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        yield 100_000
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def test_a_full_disk_is_told_and_leaves_no_file(
        self, file: LocalNewFile, files: LocalFiles
    ) -> None:
        file.write(b"fits")
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, descriptor_of(file))
        os.close(full)

        with pytest.raises(StorageFullError, match="write d/a.log in .*: No space left on device"):
            file.write(b"does not")

        assert list(files.list("d")) == []

    def test_a_write_that_stops_half_way_leaves_no_file(
        self, file: LocalNewFile, files: LocalFiles, limit: int
    ) -> None:
        file.write(bytes(limit - 1))

        with pytest.raises(StorageError, match="write d/a.log in .*: File too large"):
            file.write(b"one fits, one does not")

        assert list(files.list("d")) == []
        assert file.bytes_written == limit - 1

    def test_a_close_that_fails_leaves_no_file(self, file: LocalNewFile, files: LocalFiles) -> None:
        os.close(descriptor_of(file))

        with pytest.raises(StorageError, match="cannot close d/a.log in "):
            file.close()

        assert list(files.list("d")) == []


class TestWriteNew:
    def test_a_full_disk_is_told_and_leaves_no_file(
        self, files: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fail(monkeypatch, "write", errno.ENOSPC)

        with pytest.raises(StorageFullError, match="cannot write d/a in "):
            files.write_new("d/a", b"abc")

        assert list((root / "d").iterdir()) == []

    def test_never_removes_another_file_of_its_name(
        self, files: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def replaced(*_: Any) -> int:
            (root / "d" / "a").unlink()
            (root / "d" / "a").write_text("theirs")
            raise OSError(errno.ENOSPC, "")

        monkeypatch.setattr(os, "write", replaced)
        with pytest.raises(StorageFullError):
            files.write_new("d/a", b"abc")

        assert (root / "d" / "a").read_text() == "theirs"

    @pytest.mark.parametrize("durable", [True, False])
    def test_refuses_a_name_that_is_taken(self, files: LocalFiles, durable: bool) -> None:
        files.write_new("d/a", b"abc", durable=durable)

        with pytest.raises(ExistingFileError, match="cannot create d/a in "):
            files.write_new("d/a", b"other", durable=durable)

        assert bytes(files.read("d/a")) == b"abc"

    def test_the_sync_of_an_earlier_file_of_its_name_does_not_count(
        self, files: LocalFiles, synced: list[str], root: Path
    ) -> None:
        files.write_new("a", b"old", durable=True)
        files.delete("a")
        files.write_new("a", b"new")
        synced.clear()
        files.sync(["a"])

        assert str(root / "a") in synced


class TestSync:
    def test_syncs_each_file_and_each_directory_up_to_the_log_dir_once(
        self, files: LocalFiles, root: Path, synced: list[str]
    ) -> None:
        for path in ("t/p-1/b", "t/p-0/a", "meta"):
            files.write_new(path, b"x")
        synced.clear()

        files.sync(["t/p-1/b", "t/p-0/a", "meta", "t/p-1/b"])

        expected = ["t/p-1/b", "t/p-0/a", "meta", "t/p-0", "t/p-1", "t", ""]
        assert sorted(synced) == sorted(str(root / path) for path in expected)

    def test_syncs_the_name_of_a_directory_once(
        self, files: LocalFiles, root: Path, synced: list[str]
    ) -> None:
        for path in ("t/p/a", "t/p/b", "t/q/c"):
            files.write_new(path, b"x")
        files.sync(["t/p/a"])
        synced.clear()
        files.sync(["t/p/b"])
        files.sync(["t/q/c"])

        expected = ["t/p/b", "t/p", "t/q/c", "t/q", "t"]
        assert sorted(synced) == sorted(str(root / path) for path in expected)

    @pytest.mark.parametrize("others", [False, True])
    def test_syncs_the_name_of_a_directory_that_is_made_again(
        self, files: LocalFiles, root: Path, synced: list[str], others: bool
    ) -> None:
        files.write_new("t/p/a", b"x")
        files.sync(["t/p/a"])
        (LocalFiles(str(root)) if others else files).delete_tree("t")
        files.write_new("t/p/a", b"x")
        synced.clear()
        files.sync(["t/p/a"])

        assert sorted(synced) == sorted(str(root / path) for path in ("", "t", "t/p", "t/p/a"))

    def test_syncs_the_name_of_a_directory_again_where_it_failed(
        self, files: LocalFiles, root: Path, synced: list[str]
    ) -> None:
        files.write_new("t/p/a", b"x")
        with pytest.raises(MissingFileError):
            files.sync(["t/p/a", "gone"])
        synced.clear()
        files.sync(["t/p/a"])

        assert sorted(synced) == sorted(str(root / path) for path in ("", "t", "t/p", "t/p/a"))

    def test_says_which_file_is_missing(self, files: LocalFiles) -> None:
        files.write_new("d/a", b"x")

        with pytest.raises(MissingFileError, match="cannot sync d/gone in "):
            files.sync(["d/a", "d/gone"])

    def test_tells_that_the_disk_failed(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.write_new("a", b"x")
        fail(monkeypatch, "fsync", errno.EIO)

        with pytest.raises(StorageError, match="cannot sync a in .*: Input/output error"):
            files.sync(["a"])


class TestWriteBehind:
    @pytest.fixture
    def begun(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
        """Ranges whose write-out was asked for, as (start, length)."""
        found: list[tuple[int, int]] = []
        ask = write_back.begin_write_back

        def spy(descriptor: int, start: int, length: int) -> None:
            found.append((start, length))
            ask(descriptor, start, length)

        monkeypatch.setattr(local_file, "begin_write_back", spy)
        return found

    def test_begins_when_enough_waits(
        self, files: LocalFiles, begun: list[tuple[int, int]]
    ) -> None:
        half = bytes(local_file.WRITE_BEHIND_BYTES // 2 + 1)
        with files.create("a") as file:
            for _ in range(5):
                file.write(half)
                file.write_behind()

        assert begun == [(0, 2 * len(half)), (2 * len(half), 2 * len(half))]
        assert files.read("a") == 5 * half

    def test_is_left_out_where_the_system_has_no_such_call(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
        write_back._sync_file_range.cache_clear()
        with files.create("a") as file:
            file.write(bytes(local_file.WRITE_BEHIND_BYTES))
            file.write_behind()
        write_back._sync_file_range.cache_clear()

        assert len(files.read("a")) == local_file.WRITE_BEHIND_BYTES
