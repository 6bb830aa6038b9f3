"""The newest bytes of segments in memory: which reads are requests, and that bytes are right."""

import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from sparklog.errors import MissingFileError, StorageError
from sparklog.storage.objects import newest, object_store
from sparklog.storage.objects.newest import PIECE_BYTES, NewestBytes, RememberingFiles
from sparklog.storage.objects.object_store import ObjectFiles
from sparklog.storage.settings import StorageOptions
from tests.waiting import until

DATA = bytes(range(256)) * 4
NAME = "__shared/a.log"


class Store:
    """A store whose files all have the same bytes; it notes the ranges asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def __call__(self, path: str, start: int, length: int) -> memoryview:
        self.asked.append((path, start, length))
        return memoryview(DATA)[start : start + length]


@pytest.fixture
def store() -> Store:
    return Store()


@given(
    ranges=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 1100), st.integers(0, 400)), max_size=20
    ),
    written=st.integers(0, 20),
    max_bytes=st.integers(0, 4 * PIECE_BYTES),
)
def test_reads_what_a_slice_gives(
    ranges: list[tuple[str, int, int]], written: int, max_bytes: int
) -> None:
    """Goal: whatever is asked, written and dropped, the bytes are those of the file.

    Method: any ranges of three files, one of which is written meanwhile, against Python's slice.
    """
    found = NewestBytes(max_bytes)
    for number, (path, start, length) in enumerate(ranges):
        if number == written:
            found.add("a", memoryview(DATA))
        assert found.read(path, start, length, Store()) == DATA[start : start + length]


def test_a_range_is_read_once(store: Store) -> None:
    found = NewestBytes()
    for length in (100, 100, 60):
        found.read(NAME, 200, length, store)
    assert store.asked == [(NAME, 200, 100)]
    found.read(NAME, 200, 101, store)
    assert len(store.asked) == 2


def read_together(store: Store, error: Exception | None = None) -> list[Future[memoryview]]:
    """Let six threads read a range while the first request for it is under way."""
    found, begun, go = NewestBytes(), list[None](), Event()

    def slow(path: str, start: int, length: int) -> memoryview:
        data = store(path, start, length)
        go.wait(30)
        if error is not None:
            raise error
        return data

    def read() -> memoryview:
        begun.append(None)
        return found.read(NAME, 0, 100, slow)

    with ThreadPoolExecutor(6) as threads:
        reads = [threads.submit(read) for _ in range(6)]
        until(lambda: len(begun) == len(reads))
        go.set()
    return reads


def test_readers_share_a_request_that_is_under_way(store: Store) -> None:
    assert [one.result() for one in read_together(store)] == [DATA[:100]] * 6
    assert len(store.asked) == 1


def test_an_error_reaches_all_readers(store: Store) -> None:
    error = StorageError("the connection broke")
    assert [one.exception() for one in read_together(store, error)] == [error] * 6


def test_an_error_is_not_kept(store: Store) -> None:
    def broken(*_: object) -> memoryview:
        raise StorageError("the connection broke")

    found = NewestBytes()
    with pytest.raises(StorageError):
        found.read(NAME, 0, 100, broken)
    assert found.read(NAME, 0, 100, store) == DATA[:100]


def test_what_was_not_used_for_longest_goes_first(store: Store) -> None:
    found = NewestBytes(2 * (100 + PIECE_BYTES))
    for start in (0, 100, 0, 200, 0):
        found.read(NAME, start, 100, store)
    assert [start for _, start, _ in store.asked] == [0, 100, 200]
    found.read(NAME, 100, 100, store)
    assert len(store.asked) == 4


def test_a_large_range_is_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "READ_BYTES_MAX", 99)
    found = NewestBytes()
    for _ in range(2):
        found.read(NAME, 0, 100, store)
    assert len(store.asked) == 2


def test_what_was_dropped_under_way_is_read_all_the_same(store: Store) -> None:
    found = NewestBytes(0)

    def meanwhile(path: str, start: int, length: int) -> memoryview:
        found.add("other", memoryview(DATA))
        return store(path, start, length)

    assert found.read(NAME, 0, 100, meanwhile) == DATA[:100]


def test_a_part_keeps_no_more_than_itself() -> None:
    found = NewestBytes()
    found.add(NAME, memoryview(DATA))
    part = found.read(NAME, 3, 10, Store())
    assert len(part.obj) == 10  # type: ignore[arg-type] # bytes


class TestFiles:
    @pytest.fixture
    def files(self) -> RememberingFiles:
        return RememberingFiles("s3://bucket/log", StorageOptions(), MemoryStore())

    def written(self, files: RememberingFiles, path: str) -> None:
        """Write a file, and delete it in the store."""
        with files.create(path) as file:
            file.write(DATA)
        assert files.read(path) == DATA
        files.delete(path)

    def test_a_segment_is_there_when_it_was_written(self, files: RememberingFiles) -> None:
        self.written(files, NAME)
        assert files.read(NAME, 1, 5) == files.keep(NAME)(1, 5) == DATA[1:6]

    def test_other_files_are_requests(self, files: RememberingFiles) -> None:
        self.written(files, "t/a.index")
        with pytest.raises(MissingFileError):
            files.read("t/a.index", 0, 5)

    def test_an_upload_in_parts_is_not_kept(
        self, files: RememberingFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(object_store, "PART_BYTES", len(DATA) - 1)
        self.written(files, NAME)
        with pytest.raises(MissingFileError):
            files.read(NAME, 0, 5)

    def test_a_copy_in_another_process_remembers_nothing(self) -> None:
        files = RememberingFiles("s3://bucket/log", StorageOptions())
        assert type(pickle.loads(pickle.dumps(files))) is ObjectFiles


def test_a_piece_does_not_keep_the_buffer_that_it_came_in(store: Store) -> None:
    """A store's client reads answers into larger buffers."""
    found = NewestBytes().read(NAME, 8, 4, store)

    assert found.obj == DATA[8:12]
