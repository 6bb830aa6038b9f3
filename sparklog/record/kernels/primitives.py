"""The smallest steps over bytes: copy, big-endian integers, zig-zag varints.

They run inlined in kernels and, with the JIT off, as plain Python. All values are int64 and shifts
wrap. No sum or product may overflow: numpy would warn, and numba would not.

Varint: 7 bits per byte, lowest first, high bit = more bytes follow; 5 bytes at most for 32 bits, 10
for 64. Zig-zag: 0, -1, 1, -2 … become 0, 1, 2, 3 … (ByteUtils).
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sparklog.record.kernels.jit import JIT_OFF, inlined

Bytes = NDArray[np.uint8]

int64 = cast("Callable[[Any], int]", np.int64)
"""Widens a number: inside kernels it is np.int64, for a type checker an int."""

TRUNCATED = -1
"""Returned instead of a position: the varint runs beyond the end."""
OVERLONG = -2
"""Returned instead of a position: the varint has a 6th byte (of 64 bits: an 11th)."""

_LOW_63 = 0x7FFF_FFFF_FFFF_FFFF
_LOW_57 = 0x01FF_FFFF_FFFF_FFFF
_LOW_32 = 0xFFFF_FFFF


def _copy_plain(target: Bytes, to: int, source: Bytes, start: int, size: int) -> None:
    target[to : to + size] = source[start : start + size]


def _wrap(value: int) -> int:
    return ((value + 2**63) % 2**64) - 2**63


def _add_plain(a: int, b: int) -> int:
    return _wrap(int(a) + int(b))


def _mul32_plain(a: int, b: int) -> int:
    return int(a) * int(b) & _LOW_32


def _sub_plain(a: int, b: int) -> int:
    return _wrap(int(a) - int(b))


def _mul_plain(a: int, b: int) -> int:
    return int64(_wrap(int(a) * int(b)))


if JIT_OFF:
    copy_bytes = _copy_plain
    wrapping_add = _add_plain
    wrapping_sub = _sub_plain
    wrapping_mul = _mul_plain
    mul32 = _mul32_plain
else:  # pragma: no cover - coverage is measured with the JIT off
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic
    def copy_bytes(
        _context: Any, target: Any, to: Any, source: Any, start: Any, size: Any
    ) -> tuple[Any, Any]:
        """Copy `size` bytes by memcpy; slice assignment in a loop is six times slower.

        The caller has checked the bounds of both arrays, and that `size` is not negative.
        """

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def pointer(array: int, offset: int) -> Any:
                made = context.make_array(signature.args[array])(context, builder, args[array])
                return builder.gep(made.data, [as_int64(offset)])

            def as_int64(arg: int) -> Any:
                return context.cast(builder, args[arg], signature.args[arg], types.int64)

            raw_memcpy: Callable[..., Any] = cgutils.raw_memcpy
            raw_memcpy(builder, pointer(0, 1), pointer(2, 3), as_int64(4), 1)
            return context.get_dummy_value()

        return types.none(target, to, source, start, size), generate

    @inlined
    def wrapping_add(a: int, b: int) -> int:
        """Return the sum modulo 2**64, as Java adds longs."""
        return a + b

    @inlined
    def wrapping_sub(a: int, b: int) -> int:
        """Return the difference modulo 2**64, as Java subtracts longs."""
        return a - b

    @inlined
    def wrapping_mul(a: int, b: int) -> int:
        """Return the product modulo 2**64, as Java multiplies longs."""
        return a * b

    @inlined
    def mul32(a: int, b: int) -> int:
        """Return the low 32 bits of a product, 0..2**32-1."""
        return a * b & _LOW_32


@inlined
def get_int16(data: Bytes, at: int) -> int:
    """Return the signed big-endian int16 at `at`; the caller has checked the bounds."""
    high = int64(data[at])
    return ((high ^ 0x80) - 0x80) << 8 | int64(data[at + 1])


@inlined
def get_int32(data: Bytes, at: int) -> int:
    """Return the signed big-endian int32 at `at`; the caller has checked the bounds."""
    high = int64(data[at])
    low = int64(data[at + 1]) << 16 | int64(data[at + 2]) << 8 | int64(data[at + 3])
    return ((high ^ 0x80) - 0x80) << 24 | low


@inlined
def get_int64(data: Bytes, at: int) -> int:
    """Return the signed big-endian int64 at `at`; the caller has checked the bounds."""
    return get_int32(data, at) << 32 | (get_int32(data, at + 4) & _LOW_32)


@inlined
def put_int16(data: Bytes, at: int, value: int) -> None:
    """Write the low 16 bits of `value`, big-endian."""
    data[at] = (value >> 8) & 0xFF
    data[at + 1] = value & 0xFF


@inlined
def put_int32(data: Bytes, at: int, value: int) -> None:
    """Write the low 32 bits of `value`, big-endian."""
    for i in range(4):
        data[at + i] = (value >> (24 - 8 * i)) & 0xFF


@inlined
def put_int64(data: Bytes, at: int, value: int) -> None:
    """Write the 64 bits of `value`, big-endian."""
    for i in range(8):
        data[at + i] = (value >> (56 - 8 * i)) & 0xFF


@inlined
def zigzag(value: int) -> int:
    """Return the zig-zag code of an int64, as the int64 with the same bits."""
    wide = int64(value)
    return (wide << 1) ^ (wide >> 63)


@inlined
def unzigzag(code: int) -> int:
    """Return the int64 whose zig-zag code has these 64 bits."""
    return ((code >> 1) & _LOW_63) ^ -(code & 1)


@inlined
def code_size(code: int) -> int:
    """Return how many varint bytes a zig-zag code takes: 1 to 10."""
    if 0 <= code < 1 << 7:
        return 1
    if 0 <= code < 1 << 14:
        return 2
    size = 3
    code = (code >> 21) & (_LOW_57 >> 14)
    while code != 0:
        size += 1
        code >>= 7
    return size


@inlined
def put_code(data: Bytes, at: int, code: int) -> int:
    """Write a zig-zag code as a varint; return the position behind it."""
    while code < 0 or code > 0x7F:
        data[at] = (code & 0x7F) | 0x80
        code = (code >> 7) & _LOW_57
        at += 1
    data[at] = code
    return at + 1


@inlined
def varint_size(value: int) -> int:
    """Return how many bytes the varint of an int32 or int64 takes: 1 to 10."""
    return code_size(zigzag(value))


@inlined
def put_varint(data: Bytes, at: int, value: int) -> int:
    """Write an int32 or int64 as a varint; return the position behind it."""
    return put_code(data, at, zigzag(value))


@inlined
def get_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the 32-bit varint at `at`, and the position behind it.

    The position is TRUNCATED or OVERLONG (both negative) if no varint ends before `end`. Bits
    beyond the 32nd are dropped, as Kafka does.
    """
    if at >= end:
        return 0, TRUNCATED
    byte = int64(data[at])
    if byte < 0x80:
        return unzigzag(byte), at + 1
    code = byte & 0x7F
    for i in range(1, 5):
        if at + i >= end:
            return 0, TRUNCATED
        byte = int64(data[at + i])
        code |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return unzigzag(code & _LOW_32), at + i + 1
    return 0, OVERLONG


@inlined
def get_varlong(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the 64-bit varint at `at`, and the position behind it, as `get_varint` does."""
    if at >= end:
        return 0, TRUNCATED
    byte = int64(data[at])
    if byte < 0x80:
        return unzigzag(byte), at + 1
    code = byte & 0x7F
    for i in range(1, 10):
        if at + i >= end:
            return 0, TRUNCATED
        byte = int64(data[at + i])
        code |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return unzigzag(code), at + i + 1
    return 0, OVERLONG
