import gzip
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError, UnsupportedCodecError
from sparklog.record.legacy import plain_messages
from sparklog.record.scan import scan_batches
from tests import golden
from tests.damage import Log, check_decodes_or_refuses, misread
from tests.naive.messages import CODECS, message, wrapper
from tests.naive.records import Record, rows
from tests.strategies import INT64_MAX, legacy_entries, mutations

T0 = golden.T0
RECORDS = [
    Record(7, T0, b"k0", b"v0"),
    Record(8, T0 + 5, None, b""),
    Record(11, T0 - 10, b"", None),
]


def as_magic(records: list[Record], magic: int) -> list[Record]:
    """What a reader makes of them: magic 0 has no timestamps."""
    if magic:
        return records
    return [one._replace(timestamp=-1, timestamp_type=-1) for one in records]


def wrapping(inner: bytes, magic: int = 1, offset: int = 9, attributes: int = 1) -> bytes:
    """A gzip wrapper around whatever bytes."""
    value = gzip.compress(inner)
    return message(Record(offset, T0, None, value), magic, attributes)


class TestPlainMessages:
    @pytest.mark.parametrize("magic", [0, 1])
    def test_are_records(self, magic: int) -> None:
        log = Log(*(message(one, magic) for one in RECORDS))

        assert log.read() == as_magic(RECORDS, magic)

    def test_have_the_timestamp_type_of_their_attributes(self) -> None:
        log = Log(message(RECORDS[0], 1, attributes=8))

        assert log.read() == [RECORDS[0]._replace(timestamp_type=1)]

    def test_have_no_timestamp_in_magic_0_whatever_the_attributes_say(self) -> None:
        assert Log(message(RECORDS[0], 0, attributes=8)).read() == as_magic(RECORDS[:1], 0)

    def test_have_no_headers(self) -> None:
        got = Log(message(RECORDS[0], 1)).decode(columns=["headers"])

        assert got.headers.to_pylist() == [None]

    def test_of_both_magics_may_alternate(self) -> None:
        log = Log(*(message(one, magic) for one in RECORDS for magic in (0, 1)))

        assert log.read() == [one for pair in zip(as_magic(RECORDS, 0), RECORDS, strict=True)
                              for one in pair]  # fmt: skip


class TestCompressedMessages:
    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("codec", CODECS)
    def test_are_the_records_inside(self, magic: int, codec: str) -> None:
        assert Log(wrapper(RECORDS, magic, codec)).read() == as_magic(RECORDS, magic)

    def test_of_magic_0_have_absolute_offsets_inside(self) -> None:
        inner = b"".join(message(one, 0) for one in RECORDS)

        assert Log(wrapping(inner, magic=0, offset=99)).decode().offset.to_pylist() == [7, 8, 11]

    def test_of_magic_1_end_at_the_offset_of_the_wrapper(self) -> None:
        inner = b"".join(message(one, 1) for one in RECORDS)

        got = Log(wrapping(inner, offset=100)).decode()

        assert got.offset.to_pylist() == [96, 97, 100]

    def test_at_offset_0_have_the_offsets_they_say(self) -> None:
        inner = b"".join(message(one, 1) for one in RECORDS)

        assert Log(wrapping(inner, offset=0)).decode().offset.to_pylist() == [7, 8, 11]

    def test_at_the_last_offset_there_is(self) -> None:
        inner = message(Record(0, T0, None, None), 1) + message(Record(1, T0, None, None), 1)

        got = Log(wrapping(inner, offset=INT64_MAX)).decode()

        assert got.offset.to_pylist() == [INT64_MAX - 1, INT64_MAX]

    def test_of_magic_1_keep_their_offsets_in_a_wrapper_at_0(self) -> None:
        """A producer of old wrote 0 there, and absolute offsets inside (RecordsIterator)."""
        log = Log(wrapping(b"".join(message(one, 1) for one in RECORDS), offset=0))

        assert log.outcome() == log.naive_outcome()

    def test_have_the_time_of_the_wrapper_when_that_is_of_the_append(self) -> None:
        got = Log(wrapper(RECORDS, 1, append_time=T0 + 77)).read()

        assert got == [one._replace(timestamp=T0 + 77, timestamp_type=1) for one in RECORDS]

    def test_lose_an_inner_entry_that_is_cut_short(self) -> None:
        inner = b"".join(message(one, 1) for one in RECORDS)

        for missing in (1, 20, 25):
            got = Log(wrapping(inner[:-missing], offset=9)).decode()
            assert got.offset.to_pylist() == [8, 9]

    def test_stand_between_plain_ones_in_the_order_of_the_log(self) -> None:
        first, second = RECORDS[:2], [Record(20, T0, b"a", b"b"), Record(21, T0, b"c", b"d")]
        third = Record(30, T0, b"e", b"f")
        log = Log(wrapper(first, 1, "lz4"), message(RECORDS[2], 1), wrapper(second, 0),
                  message(third, 0))  # fmt: skip

        assert log.read() == [*RECORDS, *as_magic([*second, third], 0)]

    def test_are_found_in_a_window_that_begins_inside(self) -> None:
        log = Log(message(Record(1, T0, None, None), 1), wrapper(RECORDS, 1))

        assert log.decode(start_offset=8, end_offset=9).offset.to_pylist() == [8]
        assert log.decode(shift=100, start_offset=109).offset.to_pylist() == [111]

    def test_are_told_apart_by_origin(self) -> None:
        data = message(RECORDS[0], 1) + wrapper(RECORDS, 1) + message(RECORDS[0], 1)
        opened = plain_messages(np.frombuffer(data, np.uint8), scan_batches(data).batches, None)

        assert opened.origin.tolist() == [0, 1, 1, 1, 2]


BODIES = {
    "key size below null": (struct.pack(">i", -2) + struct.pack(">i", -1)),
    "key beyond the end": (struct.pack(">i", 5) + struct.pack(">i", -1)),
    "value size missing": (struct.pack(">i", 4) + struct.pack(">i", -1)),
    "value size below null": (struct.pack(">i", -1) + struct.pack(">i", -2)),
    "value beyond the end": (struct.pack(">i", -1) + struct.pack(">i", 1)),
    "bytes after the value": (struct.pack(">i", -1) + struct.pack(">i", -1) + b"?"),
}


def raw_message(body: bytes, magic: int = 1, attributes: int = 0) -> bytes:
    """An entry of whatever bytes behind the timestamp; its checksum is wrong."""
    head = bytes([0, 0, 0, 0, magic, attributes]) + (bytes(8) if magic else b"")
    return struct.pack(">qi", 9, len(head) + len(body)) + head + body


INNER = message(RECORDS[0], 1)
NESTED = wrapping(INNER)
WRAPPERS = {
    "null value": (raw_message(struct.pack(">ii", -1, -1), attributes=1), "says -1"),
    "value beyond the end": (raw_message(struct.pack(">ii", -1, 9), attributes=1), "says 9"),
    "key beyond the end": (raw_message(struct.pack(">ii", 1, 0), attributes=1), "the key of"),
    "key size below null": (raw_message(struct.pack(">ii", -2, 0), attributes=1), "the key of"),
    "not gzip": (raw_message(struct.pack(">ii", -1, 1) + b"?", attributes=1), "damaged gzip"),
    "nothing inside": (wrapping(b""), "without messages"),
    "a cut entry inside": (wrapping(INNER[:-1]), "without messages"),
    "a wrapper inside": (wrapping(INNER + NESTED), "compressed itself"),
    "another magic inside": (wrapping(message(RECORDS[0], 0)), "another magic"),
    "too small a size inside": (wrapping(struct.pack(">qi", 0, 13) + bytes(40)), "the size of"),
    "too small a size for magic 1 inside": (
        wrapping(struct.pack(">qi", 0, 21) + INNER[12:] + bytes(9)),
        "the size of",
    ),
    "an offset below its last message": (wrapping(INNER, offset=6), "below 7"),
    "damage inside": (wrapping(raw_message(BODIES["bytes after the value"])), "bytes are left"),
}


class TestDamagedMessages:
    @pytest.mark.parametrize("damage", BODIES)
    @pytest.mark.parametrize("magic", [0, 1])
    def test_are_errors_with_position_and_offset(self, damage: str, magic: int) -> None:
        log = Log(message(RECORDS[0], 1), raw_message(BODIES[damage], magic))
        error = misread(log)

        assert (error.position, error.offset) == (len(message(RECORDS[0], 1)), 9)
        assert "message: " in str(error)
        assert log.naive_outcome() is None

    @pytest.mark.parametrize("damage", WRAPPERS)
    def test_compressed_ones_are_errors_too(self, damage: str) -> None:
        damaged, reason = WRAPPERS[damage]
        sound = wrapper(RECORDS[:2], 1, "snappy") + message(RECORDS[0], 0)
        log = Log(sound, damaged)
        error = misread(log)

        assert reason in str(error)
        assert error.position == len(sound)
        assert log.naive_outcome() is None

    @pytest.mark.parametrize("bits", [4, 5, 6, 7])
    def test_codecs_that_came_later_are_not_supported(self, bits: int) -> None:
        log = Log(wrapping(INNER, attributes=bits))

        assert isinstance(misread(log), UnsupportedCodecError)
        assert log.naive_outcome() is None

    def test_a_wrapper_may_not_hold_more_than_allowed(self) -> None:
        with pytest.raises(CorruptRecordError, match="above 10 bytes"):
            Log(wrapping(INNER)).decode(max_bytes=10)

    def test_a_flipped_byte_does_not_pass_the_checksum(self) -> None:
        with pytest.raises(CorruptRecordError, match="checksum"):
            Log(message(RECORDS[0], 1)).flip_byte(30).read()


class TestAnyMessageSet:
    @given(st.lists(legacy_entries(), min_size=1, max_size=3), mutations())
    @example([golden.MESSAGES_V0], [(0.99, 255)])
    @example([golden.MESSAGES_V0], [(0.10, 255)])
    def test_that_is_damaged_is_an_error_or_other_records(
        self, entries: list[bytes], changes: list[tuple[float, int]]
    ) -> None:
        """Goal: no crash and no reading out of bounds. Method: bytes changed anywhere."""
        log = Log(*entries)
        for place, mask in changes:
            log.flip_byte(int(place * len(log.data)), mask)

        check_decodes_or_refuses(log)

    @given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=4), mutations())
    def test_that_is_plain_means_the_same_to_the_naive_reader(
        self, magics: list[int], changes: list[tuple[float, int]]
    ) -> None:
        """Goal: both agree on what is damage. Method: bytes changed behind the attributes."""
        entries = [message(RECORDS[i % 3], magic) for i, magic in enumerate(magics)]
        log = Log(*entries)
        for place, mask in changes:
            entry = int(place * len(entries))
            start, end = sum(map(len, entries[:entry])), sum(map(len, entries[: entry + 1]))
            log.flip_byte(start + 18 + int(place * 1e6) % (end - start - 18), mask)

        assert log.outcome() == log.naive_outcome()

    @given(st.binary(max_size=80), st.integers(0, 30), st.sampled_from([0, 1]))
    def test_means_the_same_to_the_naive_reader_whatever_is_inside(
        self, noise: bytes, start: int, magic: int
    ) -> None:
        """Goal: as above, inside a wrapper. Method: random bytes over sound inner entries."""
        inner = bytearray(b"".join(message(one, magic) for one in RECORDS))
        inner[start : start + len(noise)] = noise
        log = Log(wrapping(bytes(inner), magic))

        assert log.outcome() == log.naive_outcome()


def test_the_golden_message_set_is_what_the_writer_of_these_tests_writes() -> None:
    plain = [one._replace(headers=()) for one in golden.RECORDS]

    assert b"".join(message(one, 0) for one in plain) == golden.MESSAGES_V0
    assert message(plain[0], 1) == golden.MESSAGE_V1
    assert rows(Log(golden.MESSAGE_V1).decode()) == plain[:1]
