"""Ranges of files, fetched before they are asked for."""

import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import MissingFileError, StorageError
from sparklog.storage.memory import MemoryFiles
from sparklog.storage.objects import read_ahead
from sparklog.storage.objects.read_ahead import AHEAD, Range, RangesAhead, ReadAhead
from tests.waiting import until

DATA = bytes(range(256)) * 4


class Far:
    """A file that notes the ranges asked for, and fails on request."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.fail_at: int | None = None

    def __call__(self, start: int, length: int) -> memoryview:
        self.asked.append((start, length))
        if start == self.fail_at:
            self.fail_at = None
            raise StorageError("the connection broke")
        return memoryview(DATA)[start : start + length]


class TestReadAhead:
    @given(
        ranges=st.lists(st.tuples(st.integers(0, 1100), st.integers(0, 400)), max_size=8),
        end=st.integers(0, 2000),
    )
    def test_reads_what_a_slice_gives(self, ranges: list[tuple[int, int]], end: int) -> None:
        """Goal: whatever is asked in whatever order, the bytes are those of the file.

        Method: any ranges, against Python's own slice.
        """
        read = ReadAhead(Far(), end)

        for start, length in ranges:
            assert bytes(read(start, length)) == DATA[start : start + length]

    def test_asks_for_the_next_ranges_at_once(self) -> None:
        far = Far()
        read = ReadAhead(far, len(DATA))
        read(0, 100)
        until(lambda: len(far.asked) == 1 + AHEAD)  # threads ask

        assert sorted(far.asked) == [(start * 100, 100) for start in range(1 + AHEAD)]

    def test_asks_for_each_byte_once(self) -> None:
        far = Far()
        read = ReadAhead(far, len(DATA))
        for start in range(0, len(DATA), 90):
            read(start, min(100, len(DATA) - start))

        assert sum(length for _, length in far.asked) == len(DATA)

    def test_stops_at_the_end_of_the_scan(self) -> None:
        far = Far()
        read = ReadAhead(far, 150)
        read(0, 100)
        read(100, 100)
        until(lambda: len(far.asked) == 3)

        assert sorted(far.asked) == [(0, 100), (100, 50), (150, 50)]

    def test_waits_for_what_is_under_way(self) -> None:
        arrived = threading.Barrier(2, timeout=60)

        def together(start: int, length: int) -> memoryview:
            arrived.wait()
            return memoryview(DATA)[start : start + length]

        read = ReadAhead(together, 200)

        assert read(0, 100) == DATA[:100]
        assert read(100, 100) == DATA[100:200]

    def test_begins_anew_after_a_failure(self) -> None:
        far = Far()
        far.fail_at = 100
        read = ReadAhead(far, len(DATA))
        read(0, 100)
        with pytest.raises(StorageError, match="the connection broke"):
            read(100, 100)

        assert read(100, 100) == DATA[100:200]

    def test_works_after_a_fork(self) -> None:
        def read() -> bytes:
            return bytes(ReadAhead(Far(), 200)(0, 100))

        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(read).result() == DATA[:100]
        child = get_context("fork").Process(target=read, daemon=True)
        child.start()
        child.join(60)

        assert child.exitcode == 0


class Store(MemoryFiles):
    """Files that note how many are read at once, and wait for each other."""

    def __init__(self, together: int = 1) -> None:
        super().__init__()
        self.asked: list[Range] = []
        self._meeting = threading.Barrier(together, timeout=60)
        for name in "ab":
            self.write_new(name, DATA)

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        self.asked.append(Range(path, start, length or 0))
        self._meeting.wait()
        return super().read(path, start, length)


ranges = st.builds(Range, st.sampled_from("ab"), st.integers(0, 1100), st.integers(0, 400))


class TestRangesAhead:
    @given(wanted=st.lists(ranges, max_size=20), asked=st.lists(ranges, max_size=8))
    def test_reads_what_a_slice_gives(self, wanted: list[Range], asked: list[Range]) -> None:
        """Goal: whatever is fetched ahead, the bytes are those of the file.

        Method: any ranges, wanted before or not, against Python's own slice.
        """
        ahead = RangesAhead(Store(), wanted)

        for path, start, length in [*asked, *wanted]:
            assert bytes(ahead.keep(path)(start, length)) == DATA[start : start + length]

    def test_asks_for_what_lies_back_to_back_at_once(self) -> None:
        store = Store()
        wanted = [Range("a", 0, 10), Range("b", 5, 2), Range("a", 20, 5), Range("a", 10, 10)]
        ahead = RangesAhead(store, [*wanted, Range("b", 8, 2)])
        for path, start, length in wanted:
            ahead.keep(path)(start, length)

        assert sorted(store.asked) == [("a", 0, 25), ("b", 5, 2), ("b", 8, 2)]

    def test_asks_for_large_ranges_one_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(read_ahead, "JOINED_BYTES", 10)
        store = Store()
        wanted = [Range("a", start, 8) for start in range(0, 40, 8)]
        ahead = RangesAhead(store, wanted)
        for path, start, length in wanted:
            ahead.keep(path)(start, length)

        assert sorted(store.asked) == [("a", 0, 16), ("a", 16, 16), ("a", 32, 8)]

    def test_has_several_requests_under_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(read_ahead, "AT_ONCE", 3)
        store = Store(together=3)
        wanted = [Range("a", start, 10) for start in range(0, 100, 20)]
        RangesAhead(store, wanted).keep("a")(0, 10)

        assert sorted(store.asked) == wanted[:3]

    def test_raises_the_error_of_the_range_that_is_asked_for(self) -> None:
        ahead = RangesAhead(Store(), [Range("a", 0, 10), Range("gone", 0, 10)])

        assert ahead.keep("a")(0, 10) == DATA[:10]
        with pytest.raises(MissingFileError, match="gone"):
            ahead.keep("gone")(0, 10)
