"""Spans: wanted slices of shared segments, in few reads."""

from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.maintenance.merging import spans as module
from sparklog.maintenance.merging.spans import Spans
from sparklog.model import SHARED_PREFIX, SegmentEntry
from sparklog.storage.memory import MemoryFiles
from tests.edits import segment

PATH = f"{SHARED_PREFIX}a.log"
BYTES = bytes(range(200))


def entry(position: int, size: int, path: str = PATH) -> SegmentEntry:
    return segment(log_path=path, log_position=position, log_bytes=size)


class Files(MemoryFiles):
    """Files with one shared segment; `reads` are the ranges that were read."""

    is_local = True

    def __init__(self) -> None:
        super().__init__()
        self.write_new(PATH, BYTES)
        self.reads: list[tuple[int, int]] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        assert length is not None
        self.reads.append((start, start + length))
        return super().read(path, start, length)


def read(files: Files, *slices: tuple[int, int]) -> list[bytes]:
    """The bytes of slices (position, size)."""
    entries = [entry(*one) for one in slices]
    spans = Spans(files, [entries])
    return [bytes(spans.bytes_of(one)) for one in entries]


@pytest.mark.parametrize(
    ("slices", "reads"),
    [
        ([(10, 5), (15, 5), (20, 1)], [(10, 21)]),
        ([(20, 5), (10, 5)], [(10, 25)]),  # half of the bytes between are others'
        ([(10, 5), (26, 5)], [(10, 15), (26, 31)]),  # most are others'
        ([(0, 1), (2, 1), (100, 1), (101, 2)], [(0, 3), (100, 103)]),
        ([], []),
    ],
)
def test_slices_side_by_side_are_one_read(slices: Any, reads: Any) -> None:
    files = Files()
    read(files, *slices)
    assert sorted(files.reads) == reads


def test_a_read_is_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPAN_BYTES_MAX", 20)
    files = Files()
    read(files, (0, 10), (10, 10), (20, 30), (50, 10))
    assert files.reads == [(0, 20), (20, 50), (50, 60)]


def test_reads_of_an_object_store_are_under_way_at_once() -> None:
    together = Barrier(2, timeout=60)

    class Far(Files):
        is_local = False

        def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
            together.wait()
            return super().read(path, start, length)

    assert read(Far(), (10, 5), (100, 5)) == [BYTES[10:15], BYTES[100:105]]


def test_a_slice_is_as_short_as_its_file() -> None:
    assert read(Files(), (190, 5), (195, 20)) == [BYTES[190:195], BYTES[195:]]


def test_other_segments_are_passed_over() -> None:
    files = Files()
    Spans(files, [[segment(log_path="t-0/a.log", log_bytes=5)]])
    assert files.reads == []


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=20).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    )
)
def test_at_most_twice_the_bytes_are_read(drawn: tuple[list[int], set[int]]) -> None:
    sizes, chosen = drawn
    slices = [(sum(sizes[:at]), sizes[at]) for at in chosen]
    files = Files()
    assert read(files, *slices) == [BYTES[start : start + size] for start, size in slices]
    assert sum(end - start for start, end in files.reads) <= 2 * sum(size for _, size in slices)
