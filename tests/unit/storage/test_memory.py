import pytest

from sparklog.clock import ManualClock
from sparklog.errors import (
    ExistingFileError,
    MissingFileError,
    StorageError,
    StorageFullError,
    UsageError,
)
from sparklog.storage.memory import MemoryFiles, Operation


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def names(files: MemoryFiles) -> list[str]:
    return [found.path for found in files.list("", recursive=True)]


class TestNewFile:
    def test_takes_its_name_at_once_and_appears_when_closed(self, files: MemoryFiles) -> None:
        file = files.create("d/a")

        assert names(files) == []
        with pytest.raises(ExistingFileError):
            files.create("d/a")
        file.close()
        assert names(files) == ["d/a"]

    def test_carries_the_time_of_its_close(self) -> None:
        clock = ManualClock(1000)
        files = MemoryFiles(clock=clock)
        file = files.create("a")
        clock.advance(5)
        file.close()
        found = files.stat("a")

        assert found is not None
        assert found.modified_ms == 1005


class TestFailNext:
    def test_fails_the_next_operation_of_its_kind_once(self, files: MemoryFiles) -> None:
        files.fail_next("create")

        assert names(files) == []
        with pytest.raises(StorageError, match="create was told to fail"):
            files.create("a")
        files.create("a")

    def test_fails_the_nth_of_its_kind(self, files: MemoryFiles) -> None:
        files.fail_next("close", after=2)
        for path in ("a", "b"):
            files.write_new(path, b"")

        with pytest.raises(StorageError):
            files.write_new("c", b"")
        assert names(files) == ["a", "b"]

    def test_queues_faults_of_one_kind(self, files: MemoryFiles) -> None:
        files.write_new("a", b"x")
        files.fail_next("read", MissingFileError("first"))
        files.fail_next("read", StorageFullError("third"), after=1)

        with pytest.raises(MissingFileError, match="first"):
            files.read("a")
        assert bytes(files.read("a")) == b"x"
        with pytest.raises(StorageFullError, match="third"):
            files.read("a")

    @pytest.mark.parametrize("kind", ("write", "close"))
    def test_a_file_whose_writing_fails_never_appears(self, files: MemoryFiles, kind: str) -> None:
        files.fail_next(kind, StorageFullError("no space"))

        with pytest.raises(StorageFullError):
            files.write_new("a", b"x")

        assert names(files) == []
        files.write_new("a", b"second try")
        assert names(files) == ["a"]

    @pytest.mark.parametrize("kind", ("rename", "abort", ""))
    def test_refuses_a_kind_that_is_none(self, files: MemoryFiles, kind: str) -> None:
        with pytest.raises(UsageError, match=f"no operation is called {kind!r}; allowed: close, "):
            files.fail_next(kind)


class TestLoseUnsynced:
    def test_keeps_what_was_synced(self, files: MemoryFiles) -> None:
        files.write_new("d/a", b"1")
        files.sync(["d/a"])
        files.write_new("d/b", b"2")

        files.lose_unsynced()

        assert names(files) == ["d/a"]
        assert bytes(files.read("d/a")) == b"1"

    def test_forgets_files_that_were_being_written(self, files: MemoryFiles) -> None:
        files.create("a").write(b"half")

        files.lose_unsynced()
        files.write_new("a", b"whole")

        assert names(files) == ["a"]

    def test_brings_back_a_deleted_file_until_its_directory_is_synced(
        self, files: MemoryFiles
    ) -> None:
        for path in ("d/a", "d/b", "e/a"):
            files.write_new(path, b"x")
        files.sync(["d/a", "d/b", "e/a"])
        files.delete("d/a")
        files.delete("e/a")
        files.sync(["d/b"])

        files.lose_unsynced()

        assert names(files) == ["d/b", "e/a"]

    def test_loses_a_sync_that_failed(self, files: MemoryFiles) -> None:
        files.write_new("a", b"1")
        files.write_new("b", b"2")
        files.fail_next("sync", after=1)
        with pytest.raises(StorageError):
            files.sync(["a", "b"])

        files.lose_unsynced()

        assert names(files) == ["a"]


class TestPutNew:
    def test_loses_its_name_until_the_directory_is_synced(self, files: MemoryFiles) -> None:
        for path in ("d/a", "e/a"):
            files.put_new(path, b"x")
        files.sync_directory("d")

        files.lose_unsynced()

        assert names(files) == ["d/a"]

    def test_that_is_not_durable_is_lost_even_so(self, files: MemoryFiles) -> None:
        files.put_new("d/a", b"x", durable=False)
        files.put_new("d/b", b"x", durable=False)
        files.sync_directory("d")
        files.sync(["d/b"])

        files.lose_unsynced()

        assert names(files) == ["d/b"]

    @pytest.mark.parametrize("gone", ["d/a", "d"])
    def test_forgets_what_was_deleted(self, files: MemoryFiles, gone: str) -> None:
        files.put_new("d/a", b"x")
        files.put_new("c", b"x")
        if gone == "d":
            files.delete_tree(gone)
        else:
            files.delete(gone)
        files.sync_directory("")

        files.lose_unsynced()

        assert names(files) == ["c"]

    def test_does_not_take_the_name_of_a_file_that_is_being_written(
        self, files: MemoryFiles
    ) -> None:
        files.create("a")

        assert not files.put_new("a", b"x")

    def test_is_one_operation(self, files: MemoryFiles) -> None:
        files.put_new("d/a", b"abc")
        files.sync_directory("d")

        assert files.trace == [Operation("put_new", "d/a", 3), Operation("sync_directory", "d")]

    def test_has_no_directory_where_there_is_no_file(self, files: MemoryFiles) -> None:
        with pytest.raises(MissingFileError, match="cannot sync d in .*: no such directory"):
            files.sync_directory("d")


class TestTrace:
    def test_lists_every_operation_in_order(self, files: MemoryFiles) -> None:
        with files.create("d/a") as file:
            file.write(b"abc")
        files.sync(["d/a"])
        files.create("b").abort()

        assert files.trace == [
            Operation("create", "d/a"),
            Operation("write", "d/a", 3),
            Operation("close", "d/a", 3),
            Operation("sync", "d/a"),
            Operation("sync", "d"),
            Operation("sync", ""),
            Operation("create", "b"),
            Operation("abort", "b"),
        ]

    def test_holds_failed_operations_too(self, files: MemoryFiles) -> None:
        with pytest.raises(MissingFileError):
            files.read("gone")

        assert files.trace == [Operation("read", "gone")]
