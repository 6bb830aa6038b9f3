import struct

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import InvalidConfigError
from sparklog.model import Codec
from sparklog.record.codecs.compression import DEFAULT_LEVELS, LEVELS, compress, compressor
from sparklog.record.codecs.decompression import decompress
from tests.golden import LZ4_STREAM, PLAIN_RECORDS, SNAPPY_STREAM

TEXT = b"".join(b'{"carrier":"UA","flight":%d}' % number for number in range(3000))
CODECS = tuple(Codec)
COMPRESSING = CODECS[1:]


class TestRoundTrip:
    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("data", (b"", b"x", TEXT, bytes(300_000)))
    def test_gives_the_records_back(self, codec: Codec, data: bytes) -> None:
        assert decompress(codec, compress(codec, data), len(data)) == data

    @given(st.sampled_from(CODECS), st.binary(max_size=5000), st.integers(0, 40))
    def test_gives_any_bytes_back(self, codec: Codec, data: bytes, times: int) -> None:
        """Goal: no loss. Method: any bytes, also repeated beyond the block sizes."""
        whole = data * times

        assert decompress(codec, compress(codec, whole), len(whole)) == whole

    @pytest.mark.parametrize("codec", COMPRESSING)
    def test_one_compressor_serves_many_batches(self, codec: Codec) -> None:
        one = compressor(codec)

        assert [one(TEXT), one(b"x"), one(memoryview(TEXT))] == [
            compress(codec, TEXT),
            compress(codec, b"x"),
            compress(codec, TEXT),
        ]

    @pytest.mark.parametrize("codec", COMPRESSING)
    def test_makes_text_smaller(self, codec: Codec) -> None:
        assert len(compress(codec, TEXT)) < len(TEXT) / 3


class TestFrames:
    def test_gzip_is_a_member_without_name_and_time(self) -> None:
        assert compress(Codec.GZIP, TEXT)[:8] == bytes.fromhex("1f8b080000000000")

    def test_snappy_is_what_kafka_writes(self) -> None:
        assert compress(Codec.SNAPPY, PLAIN_RECORDS) == SNAPPY_STREAM

    def test_snappy_has_blocks_of_32_kib(self) -> None:
        stream = compress(Codec.SNAPPY, TEXT)
        at, preambles = 16, []
        while at < len(stream):
            (size,) = struct.unpack_from(">i", stream, at)
            preambles.append(stream[at + 4 : at + 7])
            at += 4 + size

        assert preambles[:-1] == [b"\x80\x80\x02"] * (len(TEXT) // 32768)

    def test_lz4_is_what_kafka_writes(self) -> None:
        assert compress(Codec.LZ4, PLAIN_RECORDS) == LZ4_STREAM

    @pytest.mark.parametrize("level", (1, 9, 17))
    def test_lz4_has_independent_blocks_of_64_kib(self, level: int) -> None:
        stream = compress(Codec.LZ4, bytes(200_000), level)
        info = lz4.frame.get_frame_info(stream)

        assert stream[:7] == bytes.fromhex("04224d18604082")
        assert not info["block_linked"]
        assert info["block_size"] == 65536

    def test_zstd_tells_its_size(self) -> None:
        assert compress(Codec.ZSTD, TEXT)[:4] == bytes.fromhex("28b52ffd")


class TestLevels:
    @pytest.mark.parametrize("codec", tuple(LEVELS))
    def test_none_is_kafkas_default(self, codec: Codec) -> None:
        assert compress(codec, TEXT) == compress(codec, TEXT, DEFAULT_LEVELS[codec])

    @pytest.mark.parametrize("codec", tuple(LEVELS))
    def test_both_bounds_are_allowed(self, codec: Codec) -> None:
        for level in LEVELS[codec]:
            assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT

    @pytest.mark.parametrize(
        ("codec", "less", "more"), ((Codec.GZIP, 1, 9), (Codec.LZ4, 9, 17), (Codec.ZSTD, -50, 19))
    )
    def test_more_effort_makes_less(self, codec: Codec, less: int, more: int) -> None:
        assert len(compress(codec, TEXT, more)) < len(compress(codec, TEXT, less))

    @pytest.mark.parametrize(
        ("codec", "level"),
        (
            (Codec.GZIP, -2),
            (Codec.GZIP, 0),
            (Codec.GZIP, 10),
            (Codec.LZ4, 0),
            (Codec.LZ4, 18),
            (Codec.ZSTD, -131073),
            (Codec.ZSTD, 23),
        ),
    )
    def test_others_are_refused(self, codec: Codec, level: int) -> None:
        with pytest.raises(InvalidConfigError, match=f"level {level} of {codec.name.lower()}"):
            compressor(codec, level)

    @pytest.mark.parametrize("codec", (Codec.NONE, Codec.SNAPPY))
    def test_codecs_without_levels_ignore_them(self, codec: Codec) -> None:
        assert compress(codec, TEXT, 99) == compress(codec, TEXT)
