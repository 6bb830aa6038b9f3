"""The codecs of a batch, framed as Kafka frames them (org.apache.kafka.common.compress).

    gzip     RFC 1952 members; several in a row are accepted
    snappy   xerial: 82 "SNAPPY" 00 | version int32 | compatible int32 | { size int32 | raw block };
             one raw block without that frame is read, too
    lz4      LZ4 frame of independent blocks: 04 22 4D 18 | FLG | BD | [content size 8] | HC
             | { size uint32, little-endian, high bit = stored | block | [xxh32] } | 0 | [xxh32]
    zstd     zstd frames

The modules of the codecs are imported when they are first used.
"""

import zlib
from collections.abc import Callable
from typing import Any, Final

from sparklog.errors import InvalidConfigError
from sparklog.model import Codec
from sparklog.record.batches import Buffer, byte_view
from sparklog.record.codecs.decompression import GZIP_WINDOW, XERIAL_HEADER

Compressor = Callable[[Any], bytes]
"""Takes an object with the buffer protocol, returns the compressed bytes."""

LEVELS: Final = {Codec.GZIP: (-1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, 22)}
"""Smallest and largest level (CompressionType); gzip's -1 is its default, gzip's 0 is refused."""
DEFAULT_LEVELS: Final = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}

_XERIAL_BLOCK: Final = 32 * 1024
_LZ4_FAST: Final = 9
"""Kafka's level of the fast compressor; every other level is high compression."""
_LZ4_HC_LEVELS: Final = (3, 12)


def compressor(codec: Codec, level: int | None = None) -> Compressor:
    """Return a function that compresses the records of one batch; it may be called many times.

    `level` is `compression.<codec>.level`, None the codec's default. Raises InvalidConfigError for
    a level outside `LEVELS`; none and snappy ignore it, as in Kafka.
    """
    level = _checked_level(codec, level)
    return _COMPRESSORS[codec](level)


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Return the compressed records of one batch. Raises InvalidConfigError as `compressor`."""
    return compressor(codec, level)(byte_view(data).data)


def _checked_level(codec: Codec, level: int | None) -> int:
    if level is None or codec not in LEVELS:
        return DEFAULT_LEVELS.get(codec, 0)
    least, greatest = LEVELS[codec]
    if not least <= level <= greatest or (codec == Codec.GZIP and level == 0):
        raise InvalidConfigError(
            f"compression level {level} of {codec.name.lower()} is not in [{least}, {greatest}]"
            + (" without 0" if codec == Codec.GZIP else ""),
            level=level,
        )
    return level


def _gzip_compressor(level: int) -> Compressor:
    return lambda data: zlib.compress(data, level, GZIP_WINDOW)


def _snappy_compressor(_: int) -> Compressor:
    import pyarrow as pa

    raw = pa.Codec("snappy")

    def compress_blocks(data: Any) -> bytes:
        view = memoryview(data)
        pieces = [XERIAL_HEADER]
        for start in range(0, len(view), _XERIAL_BLOCK):
            block = raw.compress(view[start : start + _XERIAL_BLOCK], asbytes=True)
            pieces += (len(block).to_bytes(4, "big"), block)
        return b"".join(pieces)

    return compress_blocks


def _lz4_compressor(level: int) -> Compressor:
    import lz4.frame

    least, greatest = _LZ4_HC_LEVELS
    effort = 0 if level == _LZ4_FAST else min(max(level, least), greatest)

    def compress_frame(data: Any) -> bytes:
        frame: bytes = lz4.frame.compress(
            data,
            compression_level=effort,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return frame

    return compress_frame


def _zstd_compressor(level: int) -> Compressor:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress


_COMPRESSORS: Final[dict[Codec, Callable[[int], Compressor]]] = {
    Codec.NONE: lambda _: bytes,
    Codec.GZIP: _gzip_compressor,
    Codec.SNAPPY: _snappy_compressor,
    Codec.LZ4: _lz4_compressor,
    Codec.ZSTD: _zstd_compressor,
}
