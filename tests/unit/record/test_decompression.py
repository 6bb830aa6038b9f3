import gzip
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError, UnsupportedCodecError
from sparklog.model import Codec
from sparklog.record.codecs.compression import compress
from sparklog.record.codecs.decompression import XERIAL_HEADER, decompress
from tests.golden import LZ4_STREAM, PLAIN_RECORDS, SNAPPY_STREAM, ZSTD_STREAM

TEXT = b"".join(b'{"carrier":"UA","flight":%d}' % number for number in range(3000))
COMPRESSING = tuple(Codec)[1:]
MAX = 1 << 20


def lz4_frame(flags: str, block: str, rest: bytes) -> bytes:
    return bytes.fromhex("04224d18" + flags + block) + rest


def snappy_block(data: bytes) -> bytes:
    block: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return block


class Fed:
    """A gzip decompressor; `total` is the number of bytes that all of them were given."""

    total = 0
    new = staticmethod(zlib.decompressobj)

    def __init__(self, window: int) -> None:
        self._member = Fed.new(window)

    def decompress(self, data: memoryview, max_length: int) -> bytes:
        Fed.total += len(data)
        return self._member.decompress(data, max_length)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)


class TestKafkasStreams:
    @pytest.mark.parametrize(
        ("codec", "stream"),
        ((Codec.SNAPPY, SNAPPY_STREAM), (Codec.LZ4, LZ4_STREAM), (Codec.ZSTD, ZSTD_STREAM)),
    )
    def test_are_read(self, codec: Codec, stream: bytes) -> None:
        assert decompress(codec, stream, MAX) == PLAIN_RECORDS


class TestBounds:
    @pytest.mark.parametrize("codec", tuple(Codec))
    @pytest.mark.parametrize("data", (TEXT, bytes(500_000)))
    def test_exactly_max_bytes_are_allowed_and_one_more_is_not(
        self, codec: Codec, data: bytes
    ) -> None:
        stream = compress(codec, data)

        assert len(decompress(codec, stream, len(data))) == len(data)
        with pytest.raises(CorruptRecordError, match="decompressed size above"):
            decompress(codec, stream, len(data) - 1)

    def test_hold_over_all_members_and_blocks_and_frames(self) -> None:
        streams = {
            Codec.GZIP: compress(Codec.GZIP, bytes(600)) * 2,
            Codec.SNAPPY: compress(Codec.SNAPPY, bytes(600)) * 2,
            Codec.ZSTD: compress(Codec.ZSTD, bytes(600)) * 2,
        }
        for codec, stream in streams.items():
            assert decompress(codec, stream, 1200) == bytes(1200)
            with pytest.raises(CorruptRecordError, match="decompressed size above"):
                decompress(codec, stream, 1199)

    def test_a_zstd_stream_that_hides_its_size_is_stopped(self) -> None:
        hidden = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10 * MAX))

        with pytest.raises(CorruptRecordError, match="decompressed size above"):
            decompress(Codec.ZSTD, hidden, MAX)

    def test_a_snappy_block_that_claims_too_much_is_not_even_tried(self) -> None:
        with pytest.raises(CorruptRecordError, match="decompressed size above"):
            decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x", MAX)


class TestDamage:
    @pytest.mark.parametrize("codec", COMPRESSING)
    @pytest.mark.parametrize("keep", (1, 3, 6, 12, 18, 40, -1))
    def test_a_stream_that_ends_early_is_refused(self, codec: Codec, keep: int) -> None:
        with pytest.raises(CorruptRecordError, match="damaged"):
            decompress(codec, compress(codec, TEXT)[:keep], MAX)

    @pytest.mark.parametrize("codec", (Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
    def test_nothing_is_no_stream(self, codec: Codec) -> None:
        with pytest.raises(CorruptRecordError, match="damaged"):
            decompress(codec, b"", MAX)

    @given(st.sampled_from(COMPRESSING), st.binary(max_size=100))
    def test_noise_is_refused_or_read(self, codec: Codec, noise: bytes) -> None:
        """Goal: no other error, whatever the bytes. Method: noise after each codec's beginning."""
        for stream in (noise, compress(codec, b"")[:8] + noise, compress(codec, TEXT)[:60] + noise):
            try:
                plain = decompress(codec, stream, 100_000)
            except CorruptRecordError as error:
                plain = str(error).encode()

            assert len(plain) <= 100_000

    @pytest.mark.parametrize("size", (-1, 1000))
    def test_an_impossible_size_of_a_snappy_block_is_refused(self, size: int) -> None:
        stream = XERIAL_HEADER + size.to_bytes(4, "big", signed=True) + snappy_block(b"abc")

        with pytest.raises(CorruptRecordError, match=f"a block of {size} bytes"):
            decompress(Codec.SNAPPY, stream, MAX)


class TestUnsupported:
    @pytest.mark.parametrize("bits", (5, 6, 7))
    def test_undefined_codec_bits_are_refused(self, bits: int) -> None:
        with pytest.raises(UnsupportedCodecError, match=f"codec bits {bits}"):
            decompress(bits, b"", MAX)

    @pytest.mark.parametrize("magic", (0, 1))
    def test_a_message_set_has_no_zstd(self, magic: int) -> None:
        with pytest.raises(UnsupportedCodecError, match=f"magic {magic}"):
            decompress(Codec.ZSTD, ZSTD_STREAM, MAX, magic)


class TestGzip:
    def test_padding_after_the_last_member_is_ignored(self) -> None:
        stream = compress(Codec.GZIP, TEXT)

        assert decompress(Codec.GZIP, stream + bytes(100), MAX) == TEXT

    def test_members_may_have_any_size(self) -> None:
        texts = [Random(size).randbytes(size) for size in (0, 1, 511, 5000, 0, 100_000, 3)]
        stream, plain = b"".join(map(gzip.compress, texts)), b"".join(texts)

        assert decompress(Codec.GZIP, stream, len(plain)) == plain
        with pytest.raises(CorruptRecordError, match="decompressed size above"):
            decompress(Codec.GZIP, stream, len(plain) - 1)
        with pytest.raises(CorruptRecordError, match="ends too early"):
            decompress(Codec.GZIP, stream[:-1], len(plain))

    def test_each_of_many_members_is_given_few_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.record.codecs.decompression.zlib.decompressobj", Fed)
        stream = gzip.compress(b"") * 2000
        Fed.total = 0

        assert decompress(Codec.GZIP, stream, MAX) == b""
        assert Fed.total < len(stream) + 2000 * 512

    def test_a_header_with_a_name_is_read(self) -> None:
        plain = zlib.compressobj(wbits=31)
        stream = bytearray(plain.compress(TEXT) + plain.flush())
        stream[3] = 8
        stream[10:10] = b"name\0"

        assert decompress(Codec.GZIP, stream, MAX) == TEXT


class TestSnappy:
    def test_a_bare_block_is_read(self) -> None:
        assert decompress(Codec.SNAPPY, snappy_block(TEXT), MAX) == TEXT

    @pytest.mark.parametrize("step", (1, 1000, 100_000))
    def test_blocks_may_have_any_size(self, step: int) -> None:
        data = TEXT[:3000] if step == 1 else TEXT
        blocks = [snappy_block(data[at : at + step]) for at in range(0, len(data), step)]
        stream = XERIAL_HEADER + b"".join(len(b).to_bytes(4, "big") + b for b in blocks)

        assert decompress(Codec.SNAPPY, stream, MAX) == data


class TestLz4:
    @pytest.mark.parametrize(
        "options",
        (
            {},
            {"block_size": lz4.frame.BLOCKSIZE_MAX256KB},
            {"block_size": lz4.frame.BLOCKSIZE_MAX4MB},
            {"block_checksum": True},
            {"content_checksum": True},
            {"block_checksum": True, "content_checksum": True, "store_size": False},
        ),
    )
    def test_frames_of_other_writers_are_read(self, options: dict[str, int]) -> None:
        data = TEXT * 5
        stream = lz4.frame.compress(data, block_linked=False, **options)

        assert decompress(Codec.LZ4, stream, MAX) == data

    def test_dependent_blocks_are_refused_as_kafka_does(self) -> None:
        stream = lz4.frame.compress(TEXT, block_linked=True, store_size=False)

        with pytest.raises(CorruptRecordError, match="depend on each other"):
            decompress(Codec.LZ4, stream, MAX)

    def test_content_size_and_content_checksum_are_not_looked_at(self) -> None:
        stream = bytearray(lz4.frame.compress(TEXT, block_linked=False, content_checksum=True))
        stream[-1] ^= 1

        assert decompress(Codec.LZ4, stream, MAX) == TEXT

    def test_a_wrong_block_checksum_is_refused(self) -> None:
        stream = bytearray(
            lz4.frame.compress(TEXT, block_linked=False, block_checksum=True, store_size=False)
        )
        stream[-5] ^= 1

        with pytest.raises(CorruptRecordError, match="damaged lz4"):
            decompress(Codec.LZ4, stream, MAX)

    @pytest.mark.parametrize(
        ("flags", "block", "why"),
        (
            ("20", "40", "flags 0x20"),
            ("a0", "40", "flags 0xa0"),
            ("61", "40", "flags 0x61"),
            ("62", "40", "flags 0x62"),
            ("60", "30", "descriptor 0x30"),
            ("60", "41", "descriptor 0x41"),
            ("60", "c0", "descriptor 0xc0"),
            ("60", "40", "header checksum"),
        ),
    )
    def test_headers_that_kafka_refuses_are_refused(self, flags: str, block: str, why: str) -> None:
        with pytest.raises(CorruptRecordError, match=why):
            decompress(Codec.LZ4, lz4_frame(flags, block, b"\x81" + LZ4_STREAM[7:]), MAX)

    @pytest.mark.parametrize("rest", (b"", b"12345678"))
    def test_a_header_that_ends_before_its_checksum_is_refused(self, rest: bytes) -> None:
        with pytest.raises(CorruptRecordError, match="ends too early"):
            decompress(Codec.LZ4, lz4_frame("68", "40", rest), MAX)

    def test_magic_0_may_have_a_wrong_header_checksum(self) -> None:
        stream = lz4_frame("60", "40", b"\x1a" + LZ4_STREAM[7:])

        assert decompress(Codec.LZ4, stream, MAX, magic=0) == PLAIN_RECORDS
        with pytest.raises(CorruptRecordError, match="header checksum"):
            decompress(Codec.LZ4, stream, MAX, magic=1)


class TestZstd:
    @pytest.mark.parametrize(
        "make",
        (
            lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
            lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
            lambda data: compress(Codec.ZSTD, data[:100]) + compress(Codec.ZSTD, data[100:]),
        ),
    )
    def test_frames_of_other_writers_are_read(self, make: Callable[[bytes], bytes]) -> None:
        assert decompress(Codec.ZSTD, make(TEXT), MAX) == TEXT
