import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptIndexError
from sparklog.log import offset_index
from sparklog.log.offset_index import OffsetIndex
from sparklog.model import OffsetPosition
from tests.naive import log as naive

INT32_MAX = 2**31 - 1
grown = st.sets(st.integers(1, INT32_MAX), max_size=40).map(sorted)


def index_of(entries: list[tuple[int, int]], base: int = 0) -> OffsetIndex:
    relative = [offset - base for offset, _ in entries]
    return OffsetIndex(offset_index.encode(relative, [at for _, at in entries]), base)


class TestEncode:
    def test_writes_eight_bytes_big_endian_per_entry(self) -> None:
        assert offset_index.encode([1, INT32_MAX], [4097, 70000]) == bytes.fromhex(
            "00000001 00001001 7fffffff 00011170"
        )

    def test_writes_nothing_for_no_entries(self) -> None:
        assert offset_index.encode([], []) == b""


class TestLookup:
    ENTRIES = ((41, 5000), (44, 10000), (50, 15000))

    @pytest.mark.parametrize(
        ("target", "found"),
        (
            (0, OffsetPosition(40, 0)),
            (40, OffsetPosition(40, 0)),
            (41, OffsetPosition(41, 5000)),
            (43, OffsetPosition(41, 5000)),
            (44, OffsetPosition(44, 10000)),
            (50, OffsetPosition(50, 15000)),
            (2**63 - 1, OffsetPosition(50, 15000)),
        ),
    )
    def test_finds_the_last_entry_at_or_below(self, target: int, found: OffsetPosition) -> None:
        assert index_of(list(self.ENTRIES), 40).lookup(target) == found

    def test_returns_the_base_offset_and_position_0_when_empty(self) -> None:
        assert OffsetIndex(b"", 40).lookup(99) == OffsetPosition(40, 0)

    def test_ignores_a_part_of_an_entry_at_the_end(self) -> None:
        assert OffsetIndex(struct.pack(">iii", 1, 5000, 2), 40).lookup(99) == (41, 5000)

    @example(relative=[INT32_MAX], base=2**63 - 1 - INT32_MAX, target=2**63 - 1)
    @example(relative=[1], base=0, target=0)
    @given(grown, st.integers(0, 2**63 - 1 - INT32_MAX), st.integers(0, 2**63 - 1))
    def test_agrees_with_a_look_at_every_entry(
        self, relative: list[int], base: int, target: int
    ) -> None:
        """Goal: bisection is exact. Method: every hit, its neighbours and a random target."""
        entries = [(base + offset, 8 * (slot + 1)) for slot, offset in enumerate(relative)]
        index = index_of(entries, base)
        near = {offset + step for offset, _ in entries for step in (-1, 0, 1)}

        for wanted in near | {target}:
            assert index.lookup(wanted) == naive.floor_offset(entries, base, wanted)


class TestTruncateTo:
    @given(grown, st.integers(0, INT32_MAX + 1))
    def test_keeps_the_entries_below_the_offset(self, relative: list[int], cut: int) -> None:
        """Goal: an entry of the offset itself goes too. Method: compare with a filtered list."""
        entries = [(100 + offset, 8 * (slot + 1)) for slot, offset in enumerate(relative)]

        kept = index_of(entries, 100).truncate_to(100 + cut)

        assert OffsetIndex(kept, 100).entries()[0].tolist() == [
            offset for offset, _ in entries if offset < 100 + cut
        ]


class TestSanityCheck:
    @given(grown, st.integers(0, 2**63 - 1 - INT32_MAX))
    def test_passes_what_a_writer_writes(self, relative: list[int], base: int) -> None:
        """Goal: no good index is refused. Method: any growing entries on any base."""
        index = index_of([(base + offset, offset) for offset in relative], base)

        index.sanity_check()

        assert len(index) == len(relative)

    def test_passes_an_empty_index(self) -> None:
        OffsetIndex(b"", 0).sanity_check()

    @pytest.mark.parametrize(
        ("data", "problem"),
        (
            (bytes(8), r"entry 0 \(40, 0\): a position not above"),
            (struct.pack(">iiii", 1, 5, 0, 0), r"entry 1 \(40, 0\): an offset not above"),
            (struct.pack(">ii", -1, 5), r"entry 0 \(39, 5\): an offset below the base 40"),
            (struct.pack(">ii", 1, -5), r"entry 0 \(41, -5\): a position not above"),
            (struct.pack(">iiii", 1, 5, 2, 5), r"entry 1 \(42, 5\): a position not above"),
            (struct.pack(">iiii", 1, 5, 1, 6), r"entry 1 \(41, 6\): an offset not above"),
            (struct.pack(">ii", 1, 5)[:-1], "7 bytes is no multiple of 8"),
        ),
    )
    def test_names_the_first_bad_entry(self, data: bytes, problem: str) -> None:
        with pytest.raises(CorruptIndexError, match=problem):
            OffsetIndex(data, 40).sanity_check()
