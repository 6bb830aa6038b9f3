import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError
from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.checksum import crc32, crc32c, put_checksums, verify_checksums
from sparklog.record.scan import scan_batches
from tests.golden import COMMIT_MARKER, CREATE_TIME, MESSAGE_V1, MESSAGES_V0
from tests.naive import encode as naive_encode

MIXED = MESSAGES_V0 + CREATE_TIME + MESSAGE_V1 + COMMIT_MARKER


class TestCrc32c:
    @pytest.mark.parametrize(
        ("data", "expected"),
        ((b"", 0), (b"Some String", 608512271), (b"123456789", 0xE3069283)),
    )
    def test_gives_the_known_values(self, data: bytes, expected: int) -> None:
        assert crc32c(data) == expected

    @given(st.binary(max_size=200))
    def test_agrees_with_the_bitwise_definition(self, data: bytes) -> None:
        """Goal: the C library is CRC-32C. Method: any bytes, against the polynomial bit by bit."""
        assert crc32c(data) == naive_encode.crc32c(data)


class TestCrc32:
    def test_gives_the_known_value(self) -> None:
        assert crc32(b"123456789") == 0xCBF43926


class TestVerify:
    def test_accepts_what_kafka_wrote_in_all_formats(self) -> None:
        verify_checksums(MIXED, scan_batches(MIXED).batches)

    def test_accepts_no_batches(self) -> None:
        verify_checksums(b"", BatchTable.empty())

    @pytest.mark.parametrize("data", (CREATE_TIME, COMMIT_MARKER, MESSAGE_V1))
    def test_notices_any_flipped_bit_that_is_covered(self, data: bytes) -> None:
        batches = scan_batches(data).batches
        covered = layout.CRC if data[layout.MAGIC] == layout.MAGIC_V2 else layout.LEGACY_CRC
        for at in range(covered, len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 0x10

            with pytest.raises(CorruptRecordError, match="checksum"):
                verify_checksums(damaged, batches)

    def test_names_the_first_bad_batch(self) -> None:
        data = bytearray(CREATE_TIME + COMMIT_MARKER + CREATE_TIME)
        data[len(CREATE_TIME) + 70] ^= 1
        data[-1] ^= 1

        with pytest.raises(CorruptRecordError) as caught:
            verify_checksums(data, scan_batches(data).batches)

        assert (caught.value.position, caught.value.offset) == (len(CREATE_TIME), 200)


class TestPut:
    def test_restores_the_checksums_of_all_batches(self) -> None:
        whole = np.frombuffer(CREATE_TIME + COMMIT_MARKER, np.uint8)
        wiped = whole.copy()
        batches = scan_batches(whole).batches
        for position in batches.position:
            wiped[position + layout.CRC : position + layout.CRC_START] = 0
        put_checksums(wiped, batches)

        assert bytes(wiped) == bytes(whole)
