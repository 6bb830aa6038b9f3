"""The hash table of keys, with hashes that meet as often as a test wants."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparklog.record.kernels.key_table import Keys, find_hashes, mark_superseded
from sparklog.record.payload import frozen
from tests.naive.compaction import superseded

few_keys = st.lists(st.sampled_from([b"", b"a", b"b", b"ab", b"long" * 9]), max_size=12)
"""Keys that come again and again."""
hash_bits = st.sampled_from([1, 2, 64])
"""How much of a hash differs: everything meets, much meets, nothing does."""
LEAST, LARGEST = -(2**63), 2**63 - 1


class Table(NamedTuple):
    """The kernels' arrays."""

    hashes: NDArray[np.int64]
    skipped_bits: int
    bits: int
    slots: NDArray[np.int32]
    is_superseded: NDArray[np.uint8]

    def find(self, *wanted: int, room: int = 99) -> tuple[int, list[tuple[int, int]]]:
        """How many rows have a wanted hash; and (wanted, row) of those there is room for."""
        which, rows = np.full(room, -1, np.int64), np.full(room, -1, np.int64)
        hashes = frozen(np.array(wanted, np.int64))
        count = find_hashes(
            hashes, self.hashes, self.skipped_bits, self.bits, self.slots, which, rows
        )
        found = zip(which.tolist(), rows.tolist(), strict=True)
        return count, [pair for pair in found if pair != (-1, -1)]


def table(
    keys: Sequence[bytes], hashes: Sequence[int], skipped_bits: int = 0, bits: int = 0
) -> Table:
    bits = bits or max(2 * len(keys), 1).bit_length()
    data = np.frombuffer(b"".join(keys), np.uint8)
    ends = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    made = Table(
        frozen(np.array(hashes, np.int64)),
        skipped_bits,
        bits,
        np.full(1 << bits, -1, np.int32),
        np.zeros(len(keys), np.uint8),
    )
    rows = Keys(made.hashes, frozen(ends), data)
    order = np.arange(len(hashes))
    mark_superseded(rows, order, skipped_bits, bits, made.slots, made.is_superseded)
    return made


def hash_of(key: bytes, bits: int) -> int:
    """Some hash of a key, of which the top `bits` may differ."""
    number = int.from_bytes(key[:8].ljust(8, b"\x5b"), "little") * 0x9E37_79B9_7F4A_7C15
    return int(np.uint64(number % 2**64 >> (64 - bits) << (64 - bits)).astype(np.int64))


class TestMarkSuperseded:
    @given(few_keys, hash_bits)
    @example([b"a", b"b", b"a", b"ab", b"b", b"a"], 1)
    @example([], 64)
    def test_marks_every_row_whose_key_comes_again(self, keys: list[bytes], bits: int) -> None:
        found = table(keys, [hash_of(key, bits) for key in keys])

        assert found.is_superseded.tolist() == superseded(keys)

    @pytest.mark.parametrize("other", [b"ac", b"bb", b"a", b"abc", b""])
    def test_compares_keys_of_one_hash_byte_by_byte(self, other: bytes) -> None:
        found = table([b"ab", other, b"ab"], [5, 5, 5])

        assert found.is_superseded.tolist() == [1, 0, 0]

    def test_keys_of_other_hashes_are_others(self) -> None:
        """As the caller promises; two rows may meet in a slot all the same."""
        assert table([b"a", b"a"], [5, 6]).is_superseded.tolist() == [0, 0]

    @pytest.mark.parametrize("hashed", [-1, LEAST, LARGEST, 0])
    def test_rows_that_meet_go_round_the_end_of_the_table(self, hashed: int) -> None:
        keys = [b"%d" % (number % 5) for number in range(10)]
        found = table(keys, [hashed] * 10, bits=5)

        assert found.is_superseded.tolist() == superseded(keys)
        assert sorted(found.slots[found.slots >= 0]) == [5, 6, 7, 8, 9]

    def test_a_home_lies_behind_the_bits_that_all_rows_share(self) -> None:
        top = 0xAB << 56
        hashes = [int(np.uint64(top | number << 53).astype(np.int64)) for number in (7, 1)]
        found = table([b"a", b"b"], hashes, skipped_bits=8, bits=3)

        assert found.slots.tolist() == [-1, 1, -1, -1, -1, -1, -1, 0]


class TestFindHashes:
    @given(few_keys, hash_bits, st.lists(st.sampled_from([b"", b"a", b"b", b"zz"]), max_size=6))
    @example([b"a", b"b", b"a"], 1, [b"zz", b"a"])
    def test_finds_every_latest_row_with_a_wanted_hash(
        self, keys: list[bytes], bits: int, wanted: list[bytes]
    ) -> None:
        hashes = [hash_of(key, bits) for key in keys]
        asked = [hash_of(key, bits) for key in wanted]
        latest = [row for row, gone in enumerate(superseded(keys)) if not gone]
        expected = [
            (index, row) for index, one in enumerate(asked) for row in latest if hashes[row] == one
        ]

        count, found = table(keys, hashes).find(*asked)

        assert (count, sorted(found)) == (len(expected), expected)

    def test_two_keys_of_one_hash_are_both_found(self) -> None:
        count, found = table([b"a", b"b", b"c"], [5, 5, 6]).find(5)

        assert (count, sorted(found)) == (2, [(0, 0), (0, 1)])

    def test_counts_what_there_is_no_room_for(self) -> None:
        count, found = table([b"a", b"b", b"c"], [5, 5, 5]).find(5, 5, room=4)

        assert (count, len(found)) == (6, 4)

    def test_passes_rows_that_live_in_its_way(self) -> None:
        """Hashes 0 and 1 share a home, and so does what is not there."""
        made = table([b"a", b"b"], [0, 1], bits=3)

        assert made.find(1) == (1, [(0, 1)])
        assert made.find(2) == (0, [])
