"""Local files are listed, read and linked; a refusal names the operation and the path."""

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.errors import ExistingFileError, StorageFullError, StoragePermissionError
from sparklog.storage.kept_file import AT_ONCE_BYTES
from sparklog.storage.local import LocalFiles
from tests.local_disks import fail


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "above" / "log dir"


@pytest.fixture
def files(root: Path) -> LocalFiles:
    return LocalFiles(str(root))


class TestLocalFiles:
    def test_is_where_it_was_made_after_a_change_of_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        files = LocalFiles("logs/")
        monkeypatch.chdir("/")

        assert files.uri == str(tmp_path / "logs")
        assert repr(files) == f"LocalFiles({files.uri!r})"

    def test_keeps_a_broken_link_out_of_a_list(self, files: LocalFiles, root: Path) -> None:
        files.write_new("a", b"1")
        (root / "broken").symlink_to("nowhere")

        assert [found.path for found in files.list()] == ["a"]

    def test_does_not_follow_a_link_to_a_directory(
        self, files: LocalFiles, root: Path, tmp_path: Path
    ) -> None:
        files.write_new("d/a", b"1")
        (tmp_path / "outside").write_bytes(b"2")
        (root / "d" / "link").symlink_to(tmp_path)

        found = [found.path for found in files.list("", recursive=True)]
        files.delete_tree("d")

        assert found == ["d/a"]
        assert (tmp_path / "outside").exists()

    def test_passes_over_the_directory_of_fsck(self, files: LocalFiles, root: Path) -> None:
        """Each new file system has it, and only root may read it."""
        files.write_new("d/a", b"1")
        files.write_new("lost+found/b", b"1")

        assert [found.path for found in files.list("", recursive=True)] == ["d/a"]

    def test_reads_a_directory_when_its_turn_comes(self, files: LocalFiles) -> None:
        """So who looks for one file of a large tree need not wait for all."""
        files.write_new("a", b"1")
        files.write_new("d/b", b"1")
        found = files.list("", recursive=True)
        first = next(found).path
        files.write_new("d/c", b"1")

        assert [first, *(one.path for one in found)] == ["a", "d/b", "d/c"]

    def test_leaves_out_what_vanishes_while_it_lists(
        self, files: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.write_new("d/a", b"1")
        files.write_new("d/b", b"1")
        scandir = os.scandir

        def and_one_is_gone(path: str) -> Any:
            entries = scandir(path)
            (root / "d" / "a").unlink(missing_ok=True)
            return entries

        monkeypatch.setattr(os, "scandir", and_one_is_gone)

        assert [found.path for found in files.list("d")] == ["d/b"]

    def test_deletes_a_tree_that_others_are_deleting_too(
        self, files: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.write_new("d/a", b"1")
        files.write_new("d/b", b"1")
        unlink = os.unlink

        def late(*arguments: Any, **options: Any) -> None:
            monkeypatch.setattr(os, "unlink", unlink)
            raise FileNotFoundError

        monkeypatch.setattr(os, "unlink", late)
        files.delete_tree("d")

        assert not (root / "d").exists()

    @pytest.mark.parametrize("size", [0, 1, AT_ONCE_BYTES - 1, AT_ONCE_BYTES, AT_ONCE_BYTES + 1])
    def test_reads_a_file_of_any_size(self, files: LocalFiles, size: int) -> None:
        files.write_new("a", bytes(size))

        assert bytes(files.read("a")) == bytes(size)

    def test_reads_on_after_a_short_read(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.write_new("a", b"0123456789")
        pread = os.pread
        monkeypatch.setattr(
            os, "pread", lambda descriptor, size, start: pread(descriptor, min(size, 3), start)
        )

        assert bytes(files.read("a", 1)) == b"123456789"
        assert bytes(files.read("a")) == b"0123456789"

    def test_maps_the_file_and_copies_nothing(self, files: LocalFiles) -> None:
        files.write_new("a", b"abc")

        assert isinstance(files.view("a").obj, mmap.mmap)


class TestLinkOrCopy:
    def test_links_where_it_can(self, files: LocalFiles, root: Path) -> None:
        files.write_new("a", b"abc")
        files.link_or_copy("a", "d/b")

        assert (root / "a").samefile(root / "d/b")

    @pytest.mark.parametrize("number", (errno.EXDEV, errno.EPERM, errno.EMLINK))
    def test_copies_where_it_cannot(
        self, files: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        files.write_new("a", b"abc")
        fail(monkeypatch, "link", number)

        files.link_or_copy("a", "d/b")

        assert (root / "d/b").read_bytes() == b"abc"
        assert not (root / "a").samefile(root / "d/b")

    def test_does_not_copy_onto_a_full_disk(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.write_new("a", b"abc")
        fail(monkeypatch, "link", errno.ENOSPC)

        with pytest.raises(StorageFullError, match="cannot link a as b in "):
            files.link_or_copy("a", "b")


class TestPermission:
    """Root may do everything, so the refusal is injected; what is made of it is the same."""

    @pytest.mark.parametrize("number", (errno.EACCES, errno.EPERM, errno.EROFS))
    @pytest.mark.parametrize(
        ("call", "function", "operation"),
        (
            (LocalFiles.read, "open", "read"),
            (LocalFiles.delete, "unlink", "delete"),
            (LocalFiles.stat, "stat", "look up"),
        ),
    )
    def test_a_refusal_names_the_operation_and_the_path(
        self,
        files: LocalFiles,
        monkeypatch: pytest.MonkeyPatch,
        number: int,
        call: Callable[[LocalFiles, str], object],
        function: str,
        operation: str,
    ) -> None:
        files.write_new("d/a", b"abc")
        fail(monkeypatch, function, number)

        with pytest.raises(StoragePermissionError, match=f"cannot {operation} d/a in ") as caught:
            call(files, "d/a")

        assert not caught.value.retriable


class TestLinkFrom:
    def test_a_file_outside_gets_a_second_name(self, tmp_path: Path) -> None:
        source = tmp_path / "outside"
        source.write_bytes(b"x")
        files = LocalFiles(str(tmp_path / "log"))

        assert files.link_from(str(source), "a/b.log")
        assert (tmp_path / "log" / "a" / "b.log").samefile(source)
        with pytest.raises(ExistingFileError):
            files.link_from(str(source), "a/b.log")

    def test_false_where_there_are_no_hard_links(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **_more: object) -> None:
            raise OSError(errno.EXDEV, "another file system")

        monkeypatch.setattr(os, "link", refuse)

        assert not LocalFiles(str(tmp_path)).link_from("/x", "b.log")
