from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptIndexError, CorruptRecordError
from sparklog.log.windows import BEGINNING, SegmentLog, Window, count_in_place, windows
from sparklog.model import OffsetPosition, SegmentEntry
from sparklog.record.batches import BatchTable
from sparklog.record.scan import scan_batches
from tests.damage import Log
from tests.log_language import built, log_of, table
from tests.naive.log import Batch

SHIFT = 1000


def segment_of(data: bytes | bytearray) -> SegmentLog:
    """A segment without indexes that lies SHIFT further in the log than its file says."""
    entry = built(data)[0].entry(SHIFT, 0, "t-0/a.log")
    return SegmentLog(entry=entry, read=lambda at, length: bytes(data[at : at + length]))


def damaged(segment: SegmentLog, data: bytes | bytearray) -> SegmentLog:
    """The same with other bytes on disk."""
    return replace(segment, read=lambda at, length: bytes(data[at : at + length]))


def walk(found: Iterator[Window]) -> tuple[list[int], CorruptRecordError | None]:
    """The base offsets of the batches up to the error, and the error."""
    offsets: list[int] = []
    try:
        for window in found:
            offsets += window.batches.base_offset.tolist()
    except CorruptRecordError as error:
        return offsets, error
    return offsets, None


class Bytes(np.ndarray[tuple[int], np.dtype[np.uint8]]):
    """Bytes that can be watched: when they are gone, so is the memory."""


THREE = log_of((1, 2), (3,), (4, 5, 6))
SECOND, THIRD, END = scan_batches(THREE).batches.end_position.tolist()


class TestWindows:
    @given(st.lists(st.integers(1, 4), max_size=8), st.integers(1, 400))
    def test_hold_every_batch_once_whatever_their_size(self, counts: list[int], size: int) -> None:
        """Goal: no batch is lost where windows meet. Method: any batches, any size, one byte too,
        so that windows end inside a header, inside a body and between batches.
        """
        data = log_of(*([7] * count for count in counts))
        whole = scan_batches(data).batches

        found = list(windows(segment_of(data), size=size))

        positions = [window.position + window.batches.position for window in found]
        bases = [window.batches.base_offset for window in found]
        assert np.concatenate([[], *positions]).tolist() == whole.position.tolist()
        assert np.concatenate([[], *bases]).tolist() == whole.base_offset.tolist()

    def test_are_no_larger_than_asked_but_for_a_batch_that_is(self) -> None:
        data = log_of((1,), (2,), [3] * 50, (4,), (5,))
        taken: list[int] = []

        def read(position: int, length: int) -> bytes:
            taken.append(length)
            return bytes(data[position : position + length])

        list(windows(replace(segment_of(data), read=read), size=200))

        large = int(scan_batches(data).batches.size[2])
        assert sorted(taken)[-2:] == [200, large]

    def test_grow_where_asked(self) -> None:
        data = log_of(*([n] for n in range(100)))
        size = len(log_of([0]))

        found = list(windows(segment_of(data), BEGINNING, size, 4 * size))

        assert [len(window.batches) for window in found][:5] == [1, 2, 4, 4, 4]

    def test_are_let_go_when_the_next_one_comes(self) -> None:
        data = log_of(*([n] for n in range(50)))
        views: list[ref[Bytes]] = []

        def read(position: int, length: int) -> Bytes:
            view = np.frombuffer(data[position : position + length], np.uint8).view(Bytes)
            views.append(ref(view))
            return view

        found = windows(replace(segment_of(data), read=read), size=300)
        alive = [sum(view() is not None for view in views) for _ in found]

        assert len(alive) > 10
        assert max(alive) <= 2

    def test_begin_at_an_entry_of_the_offset_index(self) -> None:
        found = windows(segment_of(THREE), OffsetPosition(2, SECOND))

        assert walk(found) == ([2, 3], None)

    def test_of_an_empty_segment_are_none(self) -> None:
        assert walk(windows(segment_of(b""))) == ([], None)


class TestDamage:
    @pytest.mark.parametrize("sound", (0, 1, 2))
    def test_zeros_are_no_batch(self, sound: int) -> None:
        start = (0, SECOND, THIRD)[sound]
        data = Log(bytes(THREE)).zero(start, END).data

        offsets, error = walk(windows(damaged(segment_of(THREE), data)))

        assert offsets == [0, 2, 3][:sound]
        assert error is not None
        assert error.position == start
        assert str(error).endswith("size 0 is below 14, the least for magic 0")

    @pytest.mark.parametrize("left", (0, 1, 17, SECOND - 1, SECOND, SECOND + 61, END - 1))
    @pytest.mark.parametrize("size", (1, 100, 2**20))
    def test_a_cut_file_says_how_long_it_should_be(self, left: int, size: int) -> None:
        offsets, error = walk(windows(damaged(segment_of(THREE), THREE[:left]), size=size))

        whole = sum(end <= left for end in (SECOND, THIRD, END))
        assert offsets == [0, 2, 3][:whole]
        assert error is not None
        assert f"the metadata says that it has {END} bytes: it was cut" in str(error)
        assert error.position == (0, SECOND, THIRD)[whole]
        assert error.offset == SHIFT + (0, 2, 3)[whole]

    def test_a_batch_longer_than_the_file_is_not_waited_for(self) -> None:
        data = Log(bytes(THREE)).put(THIRD + 8, b"\x7f\xff\xff\xff").data
        taken = []

        def read(position: int, length: int) -> bytes:
            taken.append(length)
            return bytes(data[position : position + length])

        offsets, error = walk(windows(replace(segment_of(THREE), read=read), size=100))

        assert offsets == [0, 2]
        assert "truncated" in str(error)
        assert max(taken) <= 100

    def test_a_file_that_ends_early_is_found_by_its_offsets(self) -> None:
        wrapper = log_of((9,), base=0)
        segment = segment_of(wrapper)
        longer = segment.entry._replace(next_offset=SHIFT + 3, record_count=3)

        offsets, error = walk(windows(replace(segment, entry=longer)))

        assert offsets == [0]
        assert error is not None
        assert "the file ends before offset 1003" in str(error)
        assert (error.position, error.offset) == (len(wrapper), SHIFT + 1)

    def test_behind_a_wrong_entry_of_the_index_it_is_the_indexs(self) -> None:
        data = Log(bytes(THREE)).zero(SECOND, THIRD).data
        found = windows(damaged(segment_of(THREE), data), OffsetPosition(2, SECOND))

        with pytest.raises(CorruptIndexError, match="size 0"):
            next(found)

    def test_inside_a_batch_has_its_place_in_the_log(self) -> None:
        data = Log(bytes(THREE)).put(SECOND + 61, b"\x7f").fix_crc(SECOND).data
        (window,) = windows(damaged(segment_of(THREE), data))

        with pytest.raises(CorruptRecordError, match="record 1 of 1") as caught:
            window.decoded(("value",), 0, None, window.batches)
        assert (caught.value.position, caught.value.offset) == (SECOND, SHIFT + 2)


class TestNeeded:
    @pytest.mark.parametrize(
        ("start", "end", "bases"),
        (
            (0, 6, [0, 2, 3]),
            (1, 2, [0]),
            (2, 3, [2]),
            (5, None, [3]),
            (3, 3, []),
            (6, 9, []),
            (0, None, [0, 2, 3]),
        ),
    )
    def test_is_what_overlaps_the_range(
        self, start: int, end: int | None, bases: Sequence[int]
    ) -> None:
        (window,) = windows(segment_of(THREE))

        found = window.needed(SHIFT + start, None if end is None else SHIFT + end)

        assert found.base_offset.tolist() == bases

    @pytest.mark.parametrize("dense", (True, False))
    def test_verifies_what_is_passed_over_only_where_gaps_may_be(self, dense: bool) -> None:
        segment = damaged(segment_of(THREE), Log(bytes(THREE)).flip_byte(62).data)
        entry = segment.entry._replace(record_count=6 if dense else None)
        (window,) = windows(replace(segment, entry=entry))

        if dense:
            assert window.needed(SHIFT + 2).base_offset.tolist() == [2, 3]
        else:
            with pytest.raises(CorruptRecordError, match="checksum"):
                window.needed(SHIFT + 2)


GZIP = 1


def segment(records: int | None = 10) -> SegmentEntry:
    """A segment whose file counts from 5."""
    return SegmentEntry(
        partition=0,
        base_offset=100,
        next_offset=110,
        file_base_offset=5,
        log_path="t-0/a.log",
        log_bytes=1,
        record_count=records,
        created_ms=0,
    )


def spans(*pairs: tuple[int, int], **fields: int) -> BatchTable:
    """Batches of (first, last) offsets."""
    return BatchTable.concat(
        [table([Batch(last, 0, 61)], first, **fields) for first, last in pairs]
    )


class TestCountInPlace:
    @pytest.mark.parametrize(
        ("batches", "due", "count"),
        (
            (((5, 6), (7, 7), (8, 14)), 5, 3),
            (((7, 7), (8, 14)), 7, 2),
            (((7, 7), (8, 14)), None, 2),
            (((7, 7),), 5, 0),
            (((5, 6), (8, 9)), 5, 1),
            (((5, 6), (6, 9)), 5, 1),
            (((5, 6), (7, 15)), 5, 1),
            (((5, 6), (7, 6)), 5, 1),
            (((4, 6),), None, 0),
            (((-(2**63), -(2**63)),), None, 0),
            (((5, 2**63 - 1), (7, 7)), 5, 0),
            ((), 5, 0),
        ),
    )
    def test_without_gaps_each_begins_where_the_last_ended(
        self, batches: tuple[tuple[int, int], ...], due: int | None, count: int
    ) -> None:
        assert count_in_place(spans(*batches), segment(), due) == count

    @pytest.mark.parametrize(
        ("batches", "due", "count"),
        (
            (((5, 6), (9, 9), (12, 14)), 5, 3),
            (((7, 7), (12, 14)), None, 2),
            (((6, 6),), 7, 0),
            (((5, 6), (9, 9), (9, 14)), 5, 1),
            (((5, 6), (7, 9), (9, 14)), 5, 2),
            (((5, 6), (9, 9), (12, 15)), 5, 2),
        ),
    )
    def test_with_gaps_each_begins_behind_the_last(
        self, batches: tuple[tuple[int, int], ...], due: int | None, count: int
    ) -> None:
        assert count_in_place(spans(*batches), segment(records=8), due) == count

    @pytest.mark.parametrize(
        ("batches", "count"), (((8, 14), 2), ((5, 6), 2), ((8, 8), 0), ((8, 15), 1), ((8, 7), 0))
    )
    def test_of_a_wrapper_only_its_last_offset_is_held_against_others(
        self, batches: tuple[int, int], count: int
    ) -> None:
        wrappers = spans(*((last, last) for last in batches), magic=1, attributes=GZIP)

        assert count_in_place(wrappers, segment(), 5) == count
