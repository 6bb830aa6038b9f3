"""A local file while it grows: it is parked if too many are open, and read if it is exposed."""

import errno
import os

import pytest

from sparklog.errors import StorageError, StorageFullError, UsageError
from sparklog.storage import local_file
from sparklog.storage.files import NewFile
from sparklog.storage.local import LocalFiles

pytestmark = pytest.mark.usefixtures("nothing_before")


class TestManyOpen:
    @pytest.fixture(autouse=True)
    def two_may_rest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local_file, "idle_max", lambda: 2)

    @pytest.fixture(params=[True, False], ids=["durable", "not durable"])
    def durable(self, request: pytest.FixtureRequest) -> bool:
        value: bool = request.param
        return value

    @pytest.fixture
    def five(self, files: LocalFiles, durable: bool) -> list[NewFile]:
        return [files.create(f"d/{number}", durable=durable) for number in range(5)]

    def test_a_few_have_descriptors(self, five: list[NewFile]) -> None:
        for _ in range(3):
            for file in five:
                file.write(b"x")

        opened = [file for file in five if vars(file)["_descriptor"] is not None]
        assert opened == five[3:]

    def test_all_is_written_in_order(self, files: LocalFiles, five: list[NewFile]) -> None:
        for number in range(4):
            for file in five:
                file.write(b"%d" % number)
                file.write_behind()
        for file in five:
            file.close()
        files.sync([file.path for file in five])

        assert {bytes(files.read(file.path)) for file in five} == {b"0123"}

    def test_what_is_parked_may_be_aborted(self, files: LocalFiles, five: list[NewFile]) -> None:
        for file in five:
            file.abort()

        assert list(files.list("d")) == []

    def test_what_is_parked_is_not_written_out_behind(
        self, five: list[NewFile], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(local_file, "WRITE_BEHIND_BYTES", 0)
        five[0].write_behind()

        assert vars(five[0])["_descriptor"] is None

    def test_another_file_of_its_name_is_not_written_to(
        self, files: LocalFiles, five: list[NewFile]
    ) -> None:
        files.delete("d/0")
        files.write_new("d/0", b"another's")

        with pytest.raises(StorageError, match="cannot write d/0 in .*: Stale file handle"):
            five[0].write(b"x")

        assert bytes(files.read("d/0")) == b"another's"


class TestErrorsOfParking:
    @pytest.fixture(autouse=True)
    def none_may_rest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local_file, "idle_max", lambda: 0)

    @pytest.mark.usefixtures("broken_disk")
    def test_are_told_by_the_next_write(self, files: LocalFiles) -> None:
        file = files.create("d/a", durable=True)

        with pytest.raises(StorageError, match="cannot write d/a in .*: Input/output error"):
            file.write(b"x")

        assert files.stat("d/a") is None

    @pytest.mark.usefixtures("broken_disk")
    def test_are_told_by_the_sync(self, files: LocalFiles) -> None:
        files.create("d/a", durable=True).close()

        with pytest.raises(StorageError, match="cannot sync d/a in .*: Input/output error"):
            files.sync(["d/a"])

    def test_are_told_by_the_close_of_a_file_that_is_not_durable(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))  # NFS says it here

        with monkeypatch.context() as patched:
            patched.setattr(os, "close", full)
            file = files.create("d/a")
            call = vars(file)["_parked"]
            assert isinstance(call.exception(60), OSError)

        with pytest.raises(StorageFullError, match="cannot close d/a in "):
            file.close()


class TestExposed:
    """A file that others read, and that grows."""

    @pytest.fixture
    def file(self, files: LocalFiles) -> NewFile:
        file = files.create("d/a", durable=True)
        file.write(b"first")
        file.expose()
        return file

    def test_is_read_while_it_grows(self, files: LocalFiles, file: NewFile) -> None:
        assert bytes(files.read("d/a")) == b"first"
        file.write(b", second")
        file.expose()
        file.sync()

        assert bytes(files.read("d/a")) == b"first, second"
        assert file.is_open

    def test_stays_when_it_is_aborted(self, files: LocalFiles, file: NewFile) -> None:
        file.abort()

        assert bytes(files.read("d/a")) == b"first"
        assert not file.is_open

    def test_stays_when_a_write_fails(
        self, files: LocalFiles, file: NewFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(StorageFullError):
                file.write(b"second")

        assert bytes(files.read("d/a")) == b"first"
        with pytest.raises(UsageError, match="cannot expose d/a: the new file is aborted"):
            file.expose()

    def test_is_not_synced_again_once_that_failed(
        self, file: NewFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            with pytest.raises(StorageError, match="cannot sync d/a in .*: Input/output error"):
                file.sync()

        with pytest.raises(UsageError, match="cannot sync d/a: the new file is aborted"):
            file.sync()

    @pytest.mark.parametrize("durable", [True, False])
    def test_goes_on_when_it_was_parked(
        self, files: LocalFiles, monkeypatch: pytest.MonkeyPatch, durable: bool
    ) -> None:
        monkeypatch.setattr(local_file, "idle_max", lambda: 0)
        file = files.create("d/a", durable=durable)
        for part in (b"a", b"b", b"c"):
            file.write(part)
            file.expose()
            assert vars(file)["_descriptor"] is None
            file.sync()

        assert bytes(files.read("d/a")) == b"abc"


class TestLimit:
    def test_is_a_quarter_of_the_descriptors(self) -> None:
        assert local_file.idle_max() >= 16
