"""A new local file: its descriptor syncs it, its sync may fail, a put gives it its name."""

import errno
import fcntl
import gc
import os
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from sparklog.errors import ExistingFileError, MissingFileError, StorageError, StorageFullError
from sparklog.storage import local, local_file
from sparklog.storage.local import LocalFiles

pytestmark = pytest.mark.usefixtures("nothing_before")


def written(files: LocalFiles, path: str, *, durable: bool = True) -> str:
    files.write_new(path, b"abc", durable=durable)
    return path


class TestDurable:
    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
        """The fsyncs: the name, and whether the descriptor is one that writes."""
        found: list[tuple[str, bool]] = []
        fsync = os.fsync

        def spy(descriptor: int) -> None:
            mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
            name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
            found.append((name, mode == os.O_WRONLY))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", spy)
        return found

    def test_is_synced_once_by_the_descriptor_that_wrote(
        self, files: LocalFiles, synced: list[tuple[str, bool]]
    ) -> None:
        files.sync([written(files, "d/a")])

        assert [by_writer for name, by_writer in synced if name == "a"] == [True]

    def test_is_opened_to_be_synced_where_nobody_said_so(
        self, files: LocalFiles, synced: list[tuple[str, bool]]
    ) -> None:
        files.sync([written(files, "d/a", durable=False)])

        assert [by_writer for name, by_writer in synced if name == "a"] == [False]

    def test_is_opened_to_be_synced_a_second_time(
        self, files: LocalFiles, synced: list[tuple[str, bool]]
    ) -> None:
        path = written(files, "d/a")
        files.sync([path])
        files.sync([path])

        assert [by_writer for name, by_writer in synced if name == "a"] == [True, False]

    def test_is_synced_with_its_name_behind_it(
        self, files: LocalFiles, synced: list[tuple[str, bool]]
    ) -> None:
        files.sync([written(files, "d/a")])
        synced.clear()
        with files.create("d/b", durable=True, with_name=True) as file:
            file.write(b"abc")
        files.sync(["d/b"])

        assert synced == [("b", True), ("d", False)]

    def test_a_new_directory_is_named_by_the_sync(
        self, files: LocalFiles, synced: list[tuple[str, bool]]
    ) -> None:
        files.create("d/a", durable=True, with_name=True).close()
        files.sync(["d/a"])

        assert os.path.basename(files.uri) in {name for name, _ in synced}

    def test_is_told_that_its_name_is_not_durable(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: str) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        files.sync([written(files, "d/a")])
        with monkeypatch.context() as patched:
            patched.setattr(local_file, "sync_path", broken)
            files.create("d/b", durable=True, with_name=True).close()
            with pytest.raises(StorageError, match="cannot sync d/b in .*: Input/output error"):
                files.sync(["d/b"])

    @pytest.mark.usefixtures("broken_disk")
    def test_an_error_is_told_whenever_it_is_synced(self, files: LocalFiles) -> None:
        path = written(files, "d/a")

        for _ in range(3):
            with pytest.raises(StorageError, match="cannot sync d/a in .*: Input/output error"):
                files.sync([path])

    @pytest.mark.usefixtures("broken_disk")
    def test_an_error_keeps_nothing_of_its_callers(self, files: LocalFiles) -> None:
        def caller() -> ref[LocalFiles]:
            mine = LocalFiles(files.uri)
            with suppress(StorageError):
                mine.sync([path])
            return ref(mine)

        path = written(files, "d/a")
        found = caller()
        gc.collect()

        assert found() is None

    @pytest.mark.usefixtures("broken_disk")
    def test_an_error_goes_with_its_file(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = written(files, "d/a")
        with pytest.raises(StorageError, match="Input/output error"):
            files.sync([path])
        monkeypatch.undo()
        files.delete(path)
        files.write_new(path, b"second", durable=True)

        files.sync([path])

    def test_says_that_it_is_missing(self, files: LocalFiles) -> None:
        path = written(files, "d/a")
        files.delete(path)

        with pytest.raises(MissingFileError, match="cannot sync d/a in "):
            files.sync([path])

    @pytest.mark.usefixtures("broken_disk")
    def test_is_remembered_for_long_only_if_it_failed(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad = written(files, "bad")
        with pytest.raises(StorageError):
            files.sync([bad])
        monkeypatch.undo()
        monkeypatch.setattr(local_file, "FINISHED_MAX", 2)
        for name in "abcdefgh":
            local_file._FINISHED[f"{files.uri}/{written(files, name)}"].result()

        assert len(local_file._FINISHED) == 2
        with pytest.raises(StorageError):
            files.sync([bad])

    def test_is_the_parents_after_a_fork(self, files: LocalFiles) -> None:
        path = written(files, "d/a")
        child = get_context("fork").Process(target=files.sync, args=([path],), daemon=True)
        child.start()
        child.join(60)

        assert child.exitcode == 0


class TestPutNew:
    """Puts of a local file system; the promises of all storages are in the contract."""

    @pytest.fixture(
        autouse=True,
        params=[local._UNNAMED, os.O_WRONLY | os.O_DIRECTORY],
        ids=["without a name first", "under another name first"],
    )
    def way(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local, "_UNNAMED", request.param)

    def test_leaves_one_file_of_the_usual_mode(self, files: LocalFiles, tmp_path: Path) -> None:
        assert files.put_new("d/a", b"xyz")
        assert files.put_new("d/b", b"")
        (tmp_path / "c").touch()

        assert [(found.path, found.bytes) for found in files.list("d")] == [("d/a", 3), ("d/b", 0)]
        found = os.stat(f"{files.uri}/d/a")
        assert (found.st_nlink, found.st_mode) == (1, (tmp_path / "c").stat().st_mode)

    def test_waits_for_others_when_its_bytes_are_synced(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[str] = []
        link = os.link

        def linked(*arguments: Any, **options: Any) -> None:
            steps.append("link")
            link(*arguments, **options)

        monkeypatch.setattr(os, "fdatasync", lambda _: steps.append("sync"))
        monkeypatch.setattr(os, "link", linked)
        files.put_new("a", b"xyz", ready=lambda: steps.append("ready"))

        assert steps == ["sync", "ready", "link"]

    def test_needs_no_proc(self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local, "_DESCRIPTORS", "/nowhere")

        assert files.put_new("a", b"xyz")
        assert bytes(files.read("a")) == b"xyz"

    @pytest.mark.parametrize("number", (errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV))
    def test_says_that_there_are_no_hard_links(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", refuse)

        with pytest.raises(
            StorageError, match="cannot put a in .*makes no hard links.*allowed: "
        ) as e:
            files.put_new("a", b"x")

        assert type(e.value) is StorageError
        assert list(files.list()) == []

    def test_tells_a_full_disk_and_leaves_nothing(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fdatasync", full)

        with pytest.raises(StorageFullError, match="cannot put d/a in .*: No space left"):
            files.put_new("d/a", b"x")

        assert list(files.list("d")) == []

    def test_tells_that_the_link_failed(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "link", full)

        with pytest.raises(StorageFullError, match="cannot put a in "):
            files.put_new("a", b"x")

    def test_loses_to_a_name_that_came_meanwhile(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        files.put_new("a", b"first")

        assert not files.put_new("a", b"second")
        assert [found.path for found in files.list()] == ["a"]

    @pytest.mark.parametrize(("durable", "times"), ((True, 1), (False, 0)))
    def test_is_synced_before_it_has_its_name(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch, durable: bool, times: int
    ) -> None:
        seen: list[bool] = []
        monkeypatch.setattr(os, "fdatasync", lambda _: seen.append(files.stat("a") is not None))
        files.put_new("a", b"x", durable=durable)

        assert seen == [False] * times


class TestSyncDirectory:
    def test_says_which_directory_is_missing(self, files: LocalFiles) -> None:
        with pytest.raises(MissingFileError, match="cannot sync d in "):
            files.sync_directory("d")

    def test_syncs_that_one_only(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        files.put_new("d/e/a", b"x")
        synced: list[str] = []
        monkeypatch.setattr(
            os, "fsync", lambda number: synced.append(os.readlink(f"/proc/self/fd/{number}"))
        )
        files.sync_directory("d/e")

        assert synced == [str(tmp_path / "d" / "e")]


class TestCreate:
    def test_refuses_a_name_that_is_taken(self, files: LocalFiles) -> None:
        files.create("a").abort()
        files.create("a").close()

        with pytest.raises(ExistingFileError):
            files.create("a", durable=True)
