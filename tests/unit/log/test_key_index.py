import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptIndexError
from sparklog.log.key_index import ENTRY_BYTES, HEAD_BYTES, KeyHashes, encode, read_range
from sparklog.log.names import KEY_INDEX_SUFFIX

hashes = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
entries = st.lists(st.tuples(hashes, st.integers(0, 2**32 - 1)), max_size=20)
EDGES = [(-1, 2**32 - 1), (0, 0), (2**63 - 1, 7), (-(2**63), 8), (-1, 9), (1 << 56, 10)]

Entries = list[tuple[int, int]]


def keys_of(entries: Entries) -> KeyHashes:
    table = np.array(entries, np.int64).reshape(-1, 2)
    return KeyHashes(table[:, 0].copy(), table[:, 1].copy())


def read(data: bytes, bucket: int = 0, bits: int = 0, size: int | None = None) -> Entries:
    """What the index says, sorted; the file has, but for a test, the size that it should have."""
    found = read_range(
        lambda position, length: data[position : position + length],
        len(data) if size is None else size,
        bucket,
        bits,
    )
    return sorted(zip(found.hashes.tolist(), found.deltas.tolist(), strict=True))


class TestKeyIndex:
    @given(entries)
    @example([])
    @example(EDGES)
    def test_gives_back_what_was_put_in(self, entries: Entries) -> None:
        assert read(encode(keys_of(entries))) == sorted(entries)

    @given(entries, st.integers(0, 8))
    @example(EDGES, 8)
    @example(EDGES, 1)
    def test_gives_the_keys_of_one_bucket(self, entries: Entries, bits: int) -> None:
        """Goal: each key in one bucket, that of its top bits. Method: ask for all of them."""
        data = encode(keys_of(entries))
        for bucket in range(1 << bits):
            expected = [one for one in entries if one[0] % 2**64 >> (64 - bits) == bucket]

            assert read(data, bucket, bits) == sorted(expected)

    def test_gives_hashes_in_ascending_order(self) -> None:
        data = encode(keys_of(EDGES))
        found = read_range(lambda position, length: data[position : position + length], len(data))

        ordered = found.hashes.view(np.uint64).tolist()
        assert ordered == sorted(one % 2**64 for one, _ in EDGES)

    def test_reads_the_directory_and_one_part_of_it(self) -> None:
        data, asked = encode(keys_of(EDGES)), []

        def view(position: int, length: int) -> bytes:
            asked.append((position, length))
            return data[position : position + length]

        read_range(view, len(data), 255, 8)

        assert asked == [(0, HEAD_BYTES), (len(data) - 2 * ENTRY_BYTES, 2 * ENTRY_BYTES)]

    def test_has_the_layout_that_its_file_says(self) -> None:
        key = xxhash.xxh64_intdigest(b"key")
        data = encode(KeyHashes(np.array([key], np.uint64).view(np.int64), np.array([5])))
        directory = data[: 8 * 256]
        entry = directory[8 * (key >> 56) :][:8]

        assert data[HEAD_BYTES:] == key.to_bytes(8, "little") + (5).to_bytes(4, "little")
        assert entry[:4] == (1).to_bytes(4, "little")
        assert sum(directory) == sum(entry)


class TestDamage:
    @pytest.mark.parametrize("mask", [0x01, 0xFF])
    def test_in_any_byte_is_found(self, mask: int) -> None:
        data = encode(keys_of(EDGES))
        for position in range(len(data)):
            damaged = bytearray(data)
            damaged[position] ^= mask

            with pytest.raises(CorruptIndexError) as caught:
                read(bytes(damaged))
            assert vars(caught.value)["suffix"] == KEY_INDEX_SUFFIX

    def test_of_a_part_is_found_by_those_who_read_it(self) -> None:
        data = bytearray(encode(keys_of(EDGES)))
        data[-1] ^= 1

        assert read(bytes(data), 0, 1) == sorted(one for one in EDGES if one[0] >= 0)
        with pytest.raises(CorruptIndexError, match=f"its part at byte {HEAD_BYTES + 4 * 12}"):
            read(bytes(data), 1, 1)

    @pytest.mark.parametrize("length", [0, 1, HEAD_BYTES - 1])
    def test_a_cut_directory_is_found(self, length: int) -> None:
        data = encode(keys_of(EDGES))

        with pytest.raises(CorruptIndexError, match="the checksum of its directory is wrong"):
            read(data[:length], size=len(data))

    def test_a_cut_part_is_found(self) -> None:
        data = encode(keys_of(EDGES))

        with pytest.raises(CorruptIndexError, match="the checksum of its part"):
            read(data[:-12], size=len(data))

    @pytest.mark.parametrize("by", [-12, -1, 1])
    def test_a_size_that_is_not_its_own_is_found(self, by: int) -> None:
        data = encode(keys_of(EDGES))

        with pytest.raises(CorruptIndexError, match="6 keys, which do not take"):
            read(data, size=len(data) + by)
