"""The steps that kernels are made of, how they are loaded, and murmur2.

With the JIT on, steps run as they do in production: inlined into compiled functions.
"""

import runpy
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparklog.record import kernel_cache as cache
from sparklog.record.kernels import jit, warm_up
from sparklog.record.kernels import primitives as steps
from sparklog.record.kernels.murmur2 import murmur2
from tests.naive.encode import varint, wrapped
from tests.naive.murmur2 import murmur2 as naive_murmur2

LEAST, LARGEST = -(2**63), 2**63 - 1
INT64 = st.integers(LEAST, LARGEST)
VECTORS = (
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (134217728, "8080808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
    (17179869184, "808080808001"),
    (LARGEST, "fe" + "ff" * 8 + "01"),
    (LEAST, "ff" * 9 + "01"),
)


@jit.njit(_nrt=False)
def put_all(out: NDArray[np.uint8], value: int, at: int) -> int:
    steps.put_int64(out, 0, value)
    steps.put_int32(out, 8, value)
    steps.put_int16(out, 12, value)
    return steps.put_varint(out, at, value)


@jit.njit(_nrt=False)
def get_all(data: NDArray[np.uint8]) -> tuple[int, int, int]:
    return steps.get_int64(data, 0), steps.get_int32(data, 8), steps.get_int16(data, 12)


@jit.njit(_nrt=False)
def get_varint(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    return steps.get_varint(data, at, end)


@jit.njit(_nrt=False)
def get_varlong(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    return steps.get_varlong(data, at, end)


@jit.njit(_nrt=False)
def varint_size(value: int) -> int:
    return steps.varint_size(value)


@jit.njit(_nrt=False)
def arithmetic(a: int, b: int) -> tuple[int, int, int]:
    return steps.wrapping_add(a, b), steps.wrapping_sub(a, b), steps.mul32(a & 0xFFFF, b & 0xFFFF)


@jit.njit(_nrt=False)
def copy(out: NDArray[np.uint8], to: int, data: NDArray[np.uint8], start: int, size: int) -> None:
    steps.copy_bytes(out, to, data, start, size)


def identity(value: int) -> int:
    return value


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


class TestVarints:
    @pytest.mark.parametrize(("value", "expected"), VECTORS)
    def test_are_written_as_kafka_does(self, value: int, expected: str) -> None:
        out = np.zeros(32, np.uint8)
        after = put_all(out, value, 16)

        assert bytes(out[16:after]).hex() == expected
        assert varint_size(value) == after - 16

    @pytest.mark.parametrize(("value", "written"), VECTORS)
    def test_are_read_as_kafka_does(self, value: int, written: str) -> None:
        data = as_bytes(b"#" + bytes.fromhex(written) + b"#")
        end = len(data) - 1

        assert get_varlong(data, 1, end) == (value, end)
        if end <= 1 + 5:
            assert get_varint(data, 1, end) == (value, end)
        else:
            assert get_varint(data, 1, end)[1] == steps.OVERLONG

    @given(INT64)
    @example(LARGEST)
    @example(LEAST)
    def test_agree_with_the_definition(self, value: int) -> None:
        """Goal: any int64 there and back. Method: write, compare with the twin, read."""
        out = np.zeros(32, np.uint8)
        after = put_all(out, value, 16)

        assert bytes(out[16:after]) == varint(value)
        assert get_varlong(out, 16, after) == (value, after)
        assert varint_size(value) == after - 16

    @pytest.mark.parametrize("size", range(10))
    def test_that_end_early_are_truncated(self, size: int) -> None:
        data = as_bytes(b"\x80" * size + b"\x00")

        assert get_varlong(data, 0, size) == (0, steps.TRUNCATED)
        assert get_varint(data, 0, min(size, 4)) == (0, steps.TRUNCATED)

    def test_with_a_6th_or_11th_byte_are_overlong(self) -> None:
        data = as_bytes(b"\x80" * 20)

        assert get_varint(data, 0, 20) == (0, steps.OVERLONG)
        assert get_varlong(data, 0, 20) == (0, steps.OVERLONG)

    def test_of_32_bits_drop_what_is_beyond(self) -> None:
        data = as_bytes(b"\xff\xff\xff\xff\x7f")

        assert get_varint(data, 0, 5) == (-(2**31), 5)

    def test_may_be_longer_than_needed(self) -> None:
        data = as_bytes(b"\x82\x80\x80\x80\x00")

        assert get_varint(data, 0, 5) == (1, 5)
        assert get_varlong(data, 0, 5) == (1, 5)

    @given(st.binary(max_size=12), st.integers(0, 12))
    def test_are_never_read_beyond_the_end(self, noise: bytes, end: int) -> None:
        """Goal: no byte from `end` on matters. Method: noise, read twice with other tails."""
        end = min(end, len(noise))
        for read in (get_varint, get_varlong):
            one = read(as_bytes(noise[:end] + b"\x00" * 12), 0, end)
            two = read(as_bytes(noise[:end] + b"\xff" * 12), 0, end)

            assert one == two
            assert one[1] <= end


class TestIntegers:
    @given(INT64)
    @example(LARGEST)
    @example(LEAST)
    def test_are_big_endian_and_signed(self, value: int) -> None:
        """Goal: any int64 there and back, cut to its low bits. Method: Python's own conversion."""
        out = np.zeros(32, np.uint8)
        put_all(out, value, 16)
        low = value & 0xFFFFFFFF

        assert bytes(out[:8]) == value.to_bytes(8, "big", signed=True)
        assert bytes(out[8:12]) == low.to_bytes(4, "big")
        assert bytes(out[12:14]) == (low & 0xFFFF).to_bytes(2, "big")
        assert get_all(out) == tuple(
            int.from_bytes(bytes(out[a:b]), "big", signed=True)
            for a, b in ((0, 8), (8, 12), (12, 14))
        )

    @given(INT64, INT64)
    @example(LARGEST, LARGEST)
    @example(LEAST, LARGEST)
    def test_wrap_without_a_warning(self, a: int, b: int) -> None:
        """Goal: Java's arithmetic with and without the JIT. Method: modulo 2**64 in Python."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results = arithmetic(np.int64(a), np.int64(b))

        assert results == (wrapped(a + b), wrapped(a - b), (a & 0xFFFF) * (b & 0xFFFF))


class TestCopy:
    @pytest.mark.parametrize("size", (0, 1, 7, 100))
    def test_moves_that_many_bytes(self, size: int) -> None:
        data = np.arange(200, dtype=np.uint8)
        out = np.zeros(200, np.uint8)
        copy(out, 3, data, 50, size)

        assert bytes(out[3 : 3 + size]) == bytes(data[50 : 50 + size])
        assert not out[:3].any()
        assert not out[3 + size :].any()


class TestMurmur2:
    @pytest.mark.parametrize(
        ("key", "expected"),
        (
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
            (b"", 275646681),
            (b"a", -1563381124),
            (b"ab", 316155434),
            (b"key", -1079937367),
            ((1).to_bytes(4, "big"), -173113808),
            ((42).to_bytes(8, "big"), 506863552),
        ),
    )
    def test_gives_kafkas_values(self, key: bytes, expected: int) -> None:
        assert murmur2(np.array([0, len(key)], np.int32), as_bytes(key)).tolist() == [expected]

    @given(st.lists(st.binary(max_size=20), max_size=20))
    def test_agrees_with_the_twin(self, keys: list[bytes]) -> None:
        """Goal: every key of a column hashes as alone. Method: any keys back to back."""
        offsets = np.cumsum([0, *map(len, keys)], dtype=np.int32)
        hashes = murmur2(offsets, as_bytes(b"".join(keys)))

        assert hashes.tolist() == [naive_murmur2(key) for key in keys]

    def test_no_offsets_are_no_keys(self) -> None:
        assert len(murmur2(np.empty(0, np.int32), as_bytes(b""))) == 0


class TestWarmUp:
    def test_names_every_kernel_and_where_it_came_from(self) -> None:
        origins = warm_up()

        assert {"scan.walk_headers", "encode.encode_rows", "murmur2.murmur2_rows"} <= set(origins)
        assert set(origins.values()) <= ({"plain"} if jit.JIT_OFF else {"cached", "compiled"})

    def test_the_module_prints_a_line_per_kernel(self, capsys: pytest.CaptureFixture[str]) -> None:
        runpy.run_module("sparklog.record.kernels", run_name="__main__")
        lines = capsys.readouterr().out.splitlines()

        assert lines == [f"{name}: {origin}" for name, origin in warm_up().items()]

    @pytest.mark.parametrize(
        ("stats", "expected"), ((None, "plain"), ({"f": 1}, "cached"), ({}, "compiled"))
    )
    def test_asks_numba_whether_the_cache_was_hit(
        self, stats: dict[str, int] | None, expected: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Compiled:
            pass

        if stats is not None:
            monkeypatch.setattr(Compiled, "stats", Stats(stats), raising=False)
        monkeypatch.setattr(jit, "made_up", Compiled, raising=False)

        assert jit.origin(jit.__name__, "made_up") == expected

    def test_marks_a_complete_cache(self) -> None:
        warm_up()
        mark = jit.complete_mark()
        assert (mark is not None and mark.exists()) != jit.JIT_OFF


class Stats:
    """What numba keeps of a dispatcher."""

    def __init__(self, cache_hits: dict[Any, int]) -> None:
        self.cache_hits = cache_hits


class TestCacheNames:
    def test_a_change_of_any_source_changes_the_name_of_the_cache(self) -> None:
        assert cache.sources_digest() == cache.SOURCES_DIGEST
        assert len(cache.SOURCES_DIGEST) == 12

    def test_kernels_are_cached_under_the_digest(self) -> None:
        same = jit.kernel(jit.types.int64(jit.int64))(identity)
        jit.KERNELS.pop()

        assert same(7) == 7
        assert same.__qualname__ == f"identity.{cache.SOURCES_DIGEST}"

    def test_without_a_folder_to_cache_in_a_kernel_is_compiled_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def njit(signature: Any, *, cache: bool = False, **_: object) -> Any:
            if cache:
                raise RuntimeError("cannot cache function: no locator available")
            return lambda function: (signature, function)

        monkeypatch.setattr(jit, "njit", njit)
        decorated: Any = jit.kernel("signature")(identity)
        jit.KERNELS.pop()

        assert decorated == ("signature", identity)
