import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.record.kernels.key_hash import hash_rows

EVERY_BYTE = bytes(range(256))


def hashes(*keys: bytes) -> list[int]:
    ends = np.cumsum([0, *map(len, keys)], dtype=np.int32)
    out = np.empty(len(keys), np.int64)
    hash_rows(ends, np.frombuffer(b"".join(keys), np.uint8), out)
    return out.view(np.uint64).tolist()


class TestHashRows:
    @given(st.lists(st.binary(max_size=100), max_size=6))
    @example([])
    @example([b"", b""])
    @example([b"\xff" * size for size in (1, 3, 4, 7, 8, 12, 31, 32, 33, 63, 64, 95)])
    def test_is_xxh64(self, keys: list[bytes]) -> None:
        assert hashes(*keys) == [xxhash.xxh64_intdigest(key) for key in keys]

    @pytest.mark.parametrize("size", range(72))
    def test_is_xxh64_at_every_length(self, size: int) -> None:
        """Also of a key that does not begin at a multiple of anything."""
        key = EVERY_BYTE[-size:] if size else b""

        assert hashes(b"abc", key)[1] == xxhash.xxh64_intdigest(key)

    def test_of_a_key_of_many_blocks(self) -> None:
        key = EVERY_BYTE * 40 + b"end"

        assert hashes(key) == [xxhash.xxh64_intdigest(key)]

    def test_reads_a_column_that_begins_within_its_data(self) -> None:
        out = np.empty(1, np.int64)
        hash_rows(np.array([2, 5], np.int32), np.frombuffer(b"xxabcxx", np.uint8), out)

        assert out.view(np.uint64).tolist() == [xxhash.xxh64_intdigest(b"abc")]
