import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptIndexError
from sparklog.log import time_index
from sparklog.log.time_index import TimeIndex
from sparklog.model import TimestampOffset
from tests.naive import log as naive

INT64_MAX = 2**63 - 1
times = st.sets(st.integers(0, INT64_MAX), max_size=40).map(sorted)


def index_of(entries: list[tuple[int, int]], base: int = 0) -> TimeIndex:
    relative = [offset - base for _, offset in entries]
    return TimeIndex(time_index.encode([time for time, _ in entries], relative), base)


class TestEncode:
    def test_writes_twelve_bytes_big_endian_per_entry(self) -> None:
        assert time_index.encode([1, INT64_MAX], [2, 2**31 - 1]) == bytes.fromhex(
            "0000000000000001 00000002 7fffffffffffffff 7fffffff"
        )

    def test_writes_nothing_for_no_entries(self) -> None:
        assert time_index.encode([], []) == b""


class TestLookup:
    @pytest.mark.parametrize(
        ("target", "found"),
        ((9, (-1, 45)), (10, (10, 55)), (25, (20, 65)), (30, (30, 75)), (INT64_MAX, (30, 75))),
    )
    def test_answers_as_kafkas_own_test(self, target: int, found: tuple[int, int]) -> None:
        """Goal: floor semantics. Method: the entries and answers of TimeIndexTest."""
        index = index_of([(10, 55), (20, 65), (30, 75)], 45)

        assert index.around(target)[0] == TimestampOffset(*found)

    def test_returns_no_timestamp_and_the_base_offset_when_empty(self) -> None:
        assert TimeIndex(b"", 45).around(INT64_MAX)[0] == TimestampOffset(-1, 45)

    def test_ignores_a_part_of_an_entry_at_the_end(self) -> None:
        assert TimeIndex(struct.pack(">qiq", 7, 1, 8), 45).around(99)[0] == (7, 46)

    @example(stamps=[0, INT64_MAX], base=2**62, target=-1)
    @given(times, st.integers(0, 2**62), st.integers(-1, INT64_MAX))
    def test_agrees_with_a_look_at_every_entry(
        self, stamps: list[int], base: int, target: int
    ) -> None:
        """Goal: bisection is exact. Method: every hit, its neighbours and a random target."""
        entries = [(stamp, base + 3 * slot) for slot, stamp in enumerate(stamps)]
        index = index_of(entries, base)
        near = {stamp + step for stamp in stamps for step in (-1, 0, 1)}

        for wanted in near | {target}:
            assert index.around(wanted)[0] == naive.floor_timestamp(entries, base, wanted)


class TestFollowing:
    @pytest.mark.parametrize(
        ("target", "found"), ((9, (10, 55)), (10, (20, 65)), (29, (30, 75)), (30, None))
    )
    def test_is_the_entry_after_the_one_found(
        self, target: int, found: tuple[int, int] | None
    ) -> None:
        assert index_of([(10, 55), (20, 65), (30, 75)], 45).around(target)[1] == found

    def test_is_none_in_an_empty_index(self) -> None:
        assert TimeIndex(b"", 45).around(7)[1] is None


class TestTruncateTo:
    @given(times, st.integers(0, 50))
    def test_keeps_the_entries_below_the_offset(self, stamps: list[int], cut: int) -> None:
        """Goal: an entry of the offset itself goes too. Method: compare with a filtered list."""
        entries = [(stamp, 100 + slot) for slot, stamp in enumerate(stamps)]

        kept = TimeIndex(index_of(entries, 100).truncate_to(100 + cut), 100)

        assert kept.entries()[0].tolist() == stamps[:cut]
        assert kept.entries()[1].tolist() == [offset for _, offset in entries[:cut]]


class TestSanityCheck:
    @given(times, st.integers(0, 2**62))
    def test_passes_what_a_writer_writes(self, stamps: list[int], base: int) -> None:
        """Goal: no good index is refused. Method: any growing entries on any base."""
        index = index_of([(stamp, base + slot) for slot, stamp in enumerate(stamps)], base)

        index.sanity_check()

        assert len(index) == len(stamps)

    @pytest.mark.parametrize(
        ("data", "problem"),
        (
            (bytes(24), r"entry 1 \(0, 45\): a timestamp not above"),
            (struct.pack(">qi", -1, 1), r"entry 0 \(-1, 46\): a negative timestamp"),
            (struct.pack(">qi", 1, -1), r"entry 0 \(1, 44\): an offset below the base 45"),
            (struct.pack(">qiqi", 5, 1, 4, 2), r"entry 1 \(4, 47\): a timestamp not above"),
            (struct.pack(">qiqi", 5, 1, 6, 1), r"entry 1 \(6, 46\): an offset not above"),
            (struct.pack(">qi", 1, 1)[:-1], "11 bytes is no multiple of 12"),
        ),
    )
    def test_names_the_first_bad_entry(self, data: bytes, problem: str) -> None:
        with pytest.raises(CorruptIndexError, match=problem):
            TimeIndex(data, 45).sanity_check()
