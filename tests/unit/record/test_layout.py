"""The positions of layout against bytes that Kafka wrote."""

import pytest

from sparklog.record import layout
from tests.golden import APPEND_TIME, MESSAGE_V1, MESSAGES_V0, T0, TRANSACTIONAL


def number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)


class TestBatchHeader:
    @pytest.mark.parametrize(
        ("at", "size", "expected"),
        (
            (layout.BASE_OFFSET, 8, 100),
            (layout.LENGTH, 4, 99 - layout.LOG_OVERHEAD),
            (layout.LEADER_EPOCH, 4, 5),
            (layout.MAGIC, 1, layout.MAGIC_V2),
            (layout.CRC, 4, 0x90337A65 - 2**32),
            (layout.ATTRIBUTES, 2, layout.TRANSACTIONAL_MASK),
            (layout.LAST_OFFSET_DELTA, 4, 2),
            (layout.BASE_TIMESTAMP, 8, T0),
            (layout.MAX_TIMESTAMP, 8, T0 + 5),
            (layout.PRODUCER_ID, 8, 7),
            (layout.PRODUCER_EPOCH, 2, 2),
            (layout.BASE_SEQUENCE, 4, 10),
            (layout.RECORD_COUNT, 4, 3),
        ),
    )
    def test_fields_lie_where_kafka_puts_them(self, at: int, size: int, expected: int) -> None:
        assert number(TRANSACTIONAL, at, size) == expected

    def test_records_begin_after_the_last_field(self) -> None:
        assert layout.RECORDS == layout.RECORD_COUNT + 4 == layout.BATCH_HEADER_SIZE == 61

    def test_the_least_length_is_that_of_a_header_alone(self) -> None:
        assert layout.LOG_OVERHEAD + layout.BATCH_MIN_LENGTH == layout.BATCH_HEADER_SIZE

    def test_attribute_bits_do_not_overlap(self) -> None:
        masks = (
            layout.CODEC_MASK,
            layout.TIMESTAMP_TYPE_MASK,
            layout.TRANSACTIONAL_MASK,
            layout.CONTROL_MASK,
            layout.DELETE_HORIZON_MASK,
        )

        assert sum(masks) == 0x7F


class TestMessages:
    def test_magic_stands_at_one_place_in_all_formats(self) -> None:
        magics = [data[layout.MAGIC] for data in (MESSAGES_V0, MESSAGE_V1, TRANSACTIONAL)]

        assert magics == [layout.MAGIC_V0, layout.MAGIC_V1, layout.MAGIC_V2]

    def test_a_message_of_magic_1_has_its_timestamp_before_the_key(self) -> None:
        assert number(MESSAGE_V1, layout.LEGACY_TIMESTAMP, 8) == T0 != APPEND_TIME
        assert number(MESSAGE_V1, layout.LEGACY_KEY_LENGTH_V1, 4) == len(b"k0")

    def test_a_message_of_magic_0_has_its_key_at_once(self) -> None:
        assert number(MESSAGES_V0, layout.LEGACY_KEY_LENGTH_V0, 4) == len(b"k0")

    def test_the_checksum_stands_right_before_what_it_covers(self) -> None:
        assert layout.LEGACY_CRC + 4 == layout.LEGACY_CRC_START == layout.MAGIC
        assert layout.CRC + 4 == layout.CRC_START == layout.ATTRIBUTES

    def test_the_least_size_holds_all_fields_and_no_key_and_no_value(self) -> None:
        lengths = 4 + 4

        assert (
            layout.LEGACY_KEY_LENGTH_V0 + lengths
        ) == layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V0
        assert (
            layout.LEGACY_KEY_LENGTH_V1 + lengths
        ) == layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V1
