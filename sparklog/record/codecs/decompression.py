"""Decompress records: every stream that Kafka's readers accept, up to a number of bytes.

`compression` shows the frames. In magic 0 the header checksum of an LZ4 frame may be wrong. The
modules of the codecs are imported when they are first used.
"""

import struct
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final

from sparklog.errors import CorruptRecordError, UnsupportedCodecError
from sparklog.model import Codec
from sparklog.record import layout
from sparklog.record.batches import Buffer, byte_view

GZIP_WINDOW: Final = 16 + 15
"""zlib's number for a gzip header and the largest window."""
_GZIP_STEP: Final = 512
"""How many bytes the first step into a further member takes; zlib copies those behind its end."""
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)

_LZ4_STANDARD: Final = bytes.fromhex("04224d18604082")
"""The header that Kafka writes, and `compression` too."""
_LZ4_MAGIC: Final = _LZ4_STANDARD[:4]
_LZ4_VERSION_MASK: Final = 0xC0
_LZ4_VERSION: Final = 0x40
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK_CHECKSUM: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_RESERVED: Final = 0x03
_LZ4_RATIO_MAX: Final = 255
_ZSTD_STEP: Final = 512
"""Input bytes per step if the size is unknown: they hold 170 blocks of 128 KiB at most."""


def decompress(codec: int, data: Buffer, max_bytes: int, magic: int = layout.MAGIC_V2) -> bytes:
    """Return the records in `data`, one compressed stream.

    Raises UnsupportedCodecError for codec bits 5 to 7 and for zstd in a message set;
    CorruptRecordError for a damaged stream, for dependent LZ4 blocks, and for a decompressed size
    above `max_bytes`. Memory stays within `max_bytes` and a constant.
    """
    newest = Codec.ZSTD if magic == layout.MAGIC_V2 else Codec.LZ4
    if not 0 <= codec <= newest:
        raise UnsupportedCodecError(
            f"codec bits {codec} are not defined for magic {magic}; known are 0 to {newest:d}"
        )
    view = byte_view(data).data
    if codec == Codec.LZ4:
        return _unlz4(view, max_bytes, check_header=magic != layout.MAGIC_V0)
    return _DECOMPRESSORS[Codec(codec)](view, max_bytes)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise CorruptRecordError(f"decompressed size above {max_bytes} bytes, the most allowed")


def _damaged(codec: Codec, why: object) -> CorruptRecordError:
    return CorruptRecordError(f"damaged {codec.name.lower()} stream: {why}")


def _plain(data: memoryview, max_bytes: int) -> bytes:
    _check_size(len(data), max_bytes)
    return bytes(data)


def _gunzip(data: memoryview, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left, at = max_bytes, 0
    step = len(data)  # nearly all streams have one member
    while True:
        member = zlib.decompressobj(GZIP_WINDOW)
        while not member.eof:
            try:
                piece = member.decompress(data[at : at + step], left + 1)
            except zlib.error as error:
                raise _damaged(Codec.GZIP, error) from None
            left -= len(piece)
            _check_size(max_bytes - left, max_bytes)
            pieces.append(piece)
            at, step = min(at + step, len(data)), 2 * step
            if at == len(data) and not member.eof:
                raise _damaged(Codec.GZIP, "it ends too early")
        at, step = at - len(member.unused_data), _GZIP_STEP
        # Bytes that begin no further member are padding, as in Java's GZIPInputStream.
        if bytes(data[at : at + 2]) != b"\x1f\x8b":
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unsnap(data: memoryview, max_bytes: int) -> bytes:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _unsnap_block(data, 0, max_bytes)
    pieces: list[bytes] = []
    total = at = 0
    while at < len(data):
        if bytes(data[at : at + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            at += len(XERIAL_HEADER)
            if at > len(data):
                raise _damaged(Codec.SNAPPY, "it ends within its header")
            continue
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise _damaged(Codec.SNAPPY, f"a block of {size} bytes where {len(data) - at} are left")
        pieces.append(_unsnap_block(data[at : at + size], total, max_bytes))
        total += len(pieces[-1])
        at += size
    return b"".join(pieces)


def _unsnap_block(block: memoryview, before: int, max_bytes: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise _damaged(Codec.SNAPPY, "the size of a block is damaged")
    _check_size(before + size, max_bytes)
    try:
        plain: bytes = _snappy().decompress(block, size, asbytes=True)
    except (OSError, ValueError) as error:
        raise _damaged(Codec.SNAPPY, error) from None
    return plain


def _unlz4(data: memoryview, max_bytes: int, *, check_header: bool) -> bytes:
    import lz4.frame

    frame = bytes(data)
    if not frame.startswith(_LZ4_STANDARD):
        frame = _standard_lz4(frame, check_header)
    room = min(max_bytes + 1, len(frame) * _LZ4_RATIO_MAX)
    reader = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = reader.decompress(frame, max_length=room)
    except RuntimeError as error:
        raise _damaged(Codec.LZ4, error) from None
    _check_size(len(plain), max_bytes)
    if not reader.eof:
        raise _damaged(Codec.LZ4, "it ends too early")
    return plain


def _standard_lz4(frame: bytes, check_header: bool) -> bytes:
    """Return the frame with a standard header, after the checks of Lz4BlockInputStream.

    Content size and content checksum are dropped, because Kafka ignores them.
    """
    if not frame.startswith(_LZ4_MAGIC):
        raise _damaged(Codec.LZ4, "it does not begin with an LZ4 frame")
    end = len(_LZ4_STANDARD)
    flags, block, *_ = frame[4:end].ljust(2, b"\0")
    if flags & _LZ4_VERSION_MASK != _LZ4_VERSION or flags & _LZ4_RESERVED:
        raise _damaged(Codec.LZ4, f"frame flags {flags:#04x} are not supported")
    if not flags & _LZ4_INDEPENDENT:
        raise _damaged(Codec.LZ4, "its blocks depend on each other, which Kafka does not read")
    if block not in (0x40, 0x50, 0x60, 0x70):
        raise _damaged(Codec.LZ4, f"block descriptor {block:#04x} is not 0x40 to 0x70")
    if flags & _LZ4_CONTENT_SIZE:
        end += 8
    if len(frame) < end:
        raise _damaged(Codec.LZ4, "it ends too early")
    if check_header and frame[end - 1] != _lz4_header_checksum(frame[4 : end - 1]):
        raise _damaged(Codec.LZ4, "the header checksum is wrong")
    descriptor = bytes((_LZ4_VERSION | _LZ4_INDEPENDENT | (flags & _LZ4_BLOCK_CHECKSUM), block))
    checksum = _lz4_header_checksum(descriptor)
    return b"".join((_LZ4_MAGIC, descriptor, bytes((checksum,)), frame[end:]))


def _lz4_header_checksum(descriptor: bytes) -> int:
    """Return the second byte of xxHash32, seed 0, of fewer than 16 bytes."""
    mask = 0xFFFF_FFFF
    primes = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)

    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    hashed = primes[4] + len(descriptor)
    whole = len(descriptor) & ~3
    for (lane,) in struct.iter_unpack("<I", descriptor[:whole]):
        hashed = rotate((hashed + lane * primes[2]) & mask, 17) * primes[3] & mask
    for byte in descriptor[whole:]:
        hashed = rotate((hashed + byte * primes[4]) & mask, 11) * primes[0] & mask
    hashed = (hashed ^ hashed >> 15) * primes[1] & mask
    hashed = (hashed ^ hashed >> 13) * primes[2] & mask
    return (hashed ^ hashed >> 16) >> 8 & 0xFF


def _unzstd(data: memoryview, max_bytes: int) -> bytes:
    import zstandard

    unzip = _READERS.zstd = _READERS.zstd or zstandard.ZstdDecompressor()
    try:
        if 0 < zstandard.frame_content_size(data) <= max_bytes:
            # One frame with its size, as `compression` writes it. On an error go step by step.
            with suppress(zstandard.ZstdError):
                return unzip.decompress(data, allow_extra_data=False)
        return _unzstd_steps(unzip, data, max_bytes)
    except zstandard.ZstdError as error:
        raise _damaged(Codec.ZSTD, error) from None


def _unzstd_steps(unzip: Any, data: memoryview, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    total = at = 0
    while at < len(data):
        frame = unzip.decompressobj()
        while not frame.eof and at < len(data):
            pieces.append(frame.decompress(data[at : at + _ZSTD_STEP]))
            at += _ZSTD_STEP
            total += len(pieces[-1])
            _check_size(total, max_bytes)
        if not frame.eof:
            raise _damaged(Codec.ZSTD, "it ends too early")
        at = min(at, len(data)) - len(frame.unused_data)
    return b"".join(pieces)


_DECOMPRESSORS: Final[dict[Codec, Callable[[memoryview, int], bytes]]] = {
    Codec.NONE: _plain,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnap,
    Codec.ZSTD: _unzstd,
}


class _Readers(threading.local):
    """Objects that take long to make and that threads must not share."""

    zstd: Any = None


_READERS: Final = _Readers()


@cache
def _snappy() -> Any:
    import pyarrow as pa

    return pa.Codec("snappy")
