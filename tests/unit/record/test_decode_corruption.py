"""All the error paths of decoding record batches: each damage is an error, none a crash."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError, UnsupportedCodecError
from sparklog.model import Codec
from sparklog.record.codecs.compression import compress
from sparklog.record.columns import ALL
from sparklog.record.decode import decode
from sparklog.record.scan import scan_batches
from tests import golden
from tests.damage import Log, check_decodes_or_refuses, misread, raw_batch, raw_record
from tests.naive.encode import varint
from tests.strategies import compressed, logs, mutations

NULL = varint(-1)
HEAD = b"\0\0\0"
"""Attributes, timestamp delta 0, offset delta 0."""
SOUND = HEAD + NULL + NULL + varint(0)

DAMAGED_FIELDS = {
    "no attributes": (b"", "length"),
    "ends before the timestamp": (b"\0", "a number runs beyond"),
    "ends inside the timestamp": (b"\0\x80", "a number runs beyond"),
    "ends before the offset": (b"\0\0", "a number runs beyond"),
    "ends before the key": (HEAD, "a number runs beyond"),
    "ends inside the key size": (HEAD + b"\x80", "a number runs beyond"),
    "ends before the value": (HEAD + NULL, "a number runs beyond"),
    "ends before the headers": (HEAD + NULL + NULL, "a number runs beyond"),
    "timestamp of 11 bytes": (b"\0" + b"\x80" * 10 + b"\0" + SOUND[2:], "more bytes than"),
    "offset of 6 bytes": (b"\0\0" + b"\x80" * 5 + b"\0" + SOUND[3:], "more bytes than"),
    "key size of 6 bytes": (HEAD + b"\x80" * 5 + b"\0" + SOUND[4:], "more bytes than"),
    "header count of 6 bytes": (SOUND[:-1] + b"\x80" * 5 + b"\0", "more bytes than"),
    "negative offset": (b"\0\0" + varint(-1) + SOUND[3:], "offset lies outside"),
    "offset beyond the last": (b"\0\0" + varint(1) + SOUND[3:], "offset lies outside"),
    "key size below null": (HEAD + varint(-2) + NULL + varint(0), "a key or value"),
    "key beyond the end": (HEAD + varint(4) + b"abc", "a key or value"),
    "key of 2 GiB": (HEAD + varint(2**31 - 1) + NULL + varint(0), "a key or value"),
    "value size below null": (HEAD + NULL + varint(-(2**31)) + varint(0), "a key or value"),
    "value beyond the end": (HEAD + NULL + varint(2) + b"a", "a key or value"),
    "negative header count": (SOUND[:-1] + varint(-1), "header count"),
    "more headers than bytes": (SOUND[:-1] + varint(3) + b"\0\0", "header count"),
    "header without key": (SOUND[:-1] + varint(1) + NULL + NULL, "a key or value"),
    "header key beyond the end": (SOUND[:-1] + varint(1) + varint(5) + b"abc", "a key or value"),
    "header value missing": (SOUND[:-1] + varint(1) + varint(1) + b"a", "a number runs"),
    "header value beyond the end": (SOUND[:-1] + varint(1) + b"\0" + varint(1), "a key or value"),
    "second header missing": (SOUND[:-1] + varint(2) + b"\0" + NULL, "a number runs"),
    "bytes after the last field": (SOUND + b"\0", "bytes are left between"),
    "header key not UTF-8": (SOUND[:-1] + varint(1) + varint(1) + b"\xff" + NULL, "not UTF-8"),
}

DAMAGED_BATCHES = {
    "length beyond the end": (raw_batch(varint(8) + SOUND, 1), "length is damaged"),
    "negative length": (raw_batch(varint(-1) + SOUND, 1), "length is damaged"),
    "length of 6 bytes": (raw_batch(b"\x80" * 5 + b"\0" + SOUND, 1), "length is damaged"),
    "length cut off": (raw_batch(b"\x80" * 4 + raw_record(SOUND)[:3], 1), "length is damaged"),
    "a record missing": (raw_batch(raw_record(SOUND) + bytes(7), 2), "length is damaged"),
    "bytes after the last record": (raw_batch(raw_record(SOUND) + b"\0", 1), "after the last"),
    "records behind a count of 0": (raw_batch(raw_record(SOUND), 0), "after the last"),
    "negative count": (raw_batch(raw_record(SOUND), -1), "-1 records cannot"),
    "count beyond what fits": (raw_batch(raw_record(SOUND), 2**31 - 1), "cannot be in 7 bytes"),
    "count without records": (raw_batch(b"", 1), "1 records cannot be in 0 bytes"),
    "negative last offset delta": (
        raw_batch(raw_record(SOUND), 1, last_delta=-1),
        "offset lies outside",
    ),
    "not gzip": (raw_batch(bytes(9), 1, attributes=1), "damaged gzip"),
    "gzip cut short": (
        raw_batch(compress(Codec.GZIP, raw_record(SOUND))[:-1], 1, attributes=1),
        "damaged gzip",
    ),
}


class TestDamagedRecords:
    @pytest.mark.parametrize("damage", DAMAGED_FIELDS)
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    def test_are_errors_with_position_and_offset(self, damage: str, codec: Codec) -> None:
        body, reason = DAMAGED_FIELDS[damage]
        sound = raw_batch(raw_record(SOUND), 1, base=6)
        records = raw_record(body) + raw_record(HEAD + NULL + varint(20) + bytes(20) + b"\0")
        damaged = raw_batch(records, 2, base=7, last_delta=0, attributes=int(codec))
        log = Log(sound, compressed(damaged, codec))
        error = misread(log)

        assert reason in str(error)
        assert (error.position, error.offset) == (len(sound), 7)
        assert log.naive_outcome() is None

    @pytest.mark.parametrize("name", [name for name in ALL if name != "headers"])
    def test_are_errors_whatever_is_asked_for(self, name: str) -> None:
        log = Log(raw_batch(raw_record(SOUND + b"\0"), 1))

        with pytest.raises(CorruptRecordError, match="record 1 of 1: bytes are left"):
            log.decode(columns=[name])

    def test_are_counted(self) -> None:
        second = b"\0\0" + varint(1) + SOUND[3:] + b"\0"
        log = Log(raw_batch(raw_record(SOUND) + raw_record(second), 2))

        assert "record 2 of 2: bytes are left" in str(misread(log))

    def test_offsets_in_errors_are_those_of_the_file(self) -> None:
        with pytest.raises(CorruptRecordError) as caught:
            Log(raw_batch(raw_record(b"\0"), 1, base=7)).decode(shift=1000)

        assert caught.value.offset == 7

    def test_a_sound_record_is_read(self) -> None:
        assert len(Log(raw_batch(raw_record(SOUND), 1)).read()) == 1


class TestDamagedBatches:
    @pytest.mark.parametrize("damage", DAMAGED_BATCHES)
    def test_are_errors_with_position_and_offset(self, damage: str) -> None:
        damaged, reason = DAMAGED_BATCHES[damage]
        log = Log(golden.CREATE_TIME, damaged)
        error = misread(log)

        assert reason in str(error)
        assert (error.position, error.offset) == (len(golden.CREATE_TIME), 0)

    @pytest.mark.parametrize("damage", [name for name in DAMAGED_BATCHES if "gzip" not in name])
    def test_are_errors_to_the_naive_reader_too(self, damage: str) -> None:
        assert Log(DAMAGED_BATCHES[damage][0]).naive_outcome() is None

    @pytest.mark.parametrize("bits", [5, 6, 7])
    def test_of_an_unknown_codec(self, bits: int) -> None:
        log = Log(golden.CREATE_TIME, raw_batch(b"?", 1, base=9, attributes=bits))
        error = misread(log)

        assert isinstance(error, UnsupportedCodecError)
        assert (error.position, error.offset) == (len(golden.CREATE_TIME), 9)
        assert log.naive_outcome() is None

    def test_that_decompress_to_more_than_allowed(self) -> None:
        bomb = compressed(raw_batch(bytes(100_000), 1, attributes=4), Codec.ZSTD)

        with pytest.raises(CorruptRecordError, match="above 99999 bytes") as caught:
            Log(golden.CREATE_TIME, bomb).decode(max_bytes=99_999)
        assert caught.value.position == len(golden.CREATE_TIME)

    @pytest.mark.parametrize(
        "place", [{"position": -1}, {"position": 1}, {"size": 60}, {"size": 2**62}]
    )
    def test_that_the_data_does_not_hold(self, place: dict[str, int]) -> None:
        batches = scan_batches(golden.CREATE_TIME).batches
        moved = replace(batches, **{name: np.array([value]) for name, value in place.items()})

        with pytest.raises(CorruptRecordError, match=r"no batch of \d+ bytes fits into 99 bytes"):
            decode(golden.CREATE_TIME, moved)


class TestCarefulReader:
    """What a checksum is for: damage that still decodes."""

    def test_a_flipped_byte_of_a_value(self) -> None:
        log = Log(golden.CREATE_TIME).flip_byte(70)

        assert log.outcome() is not None
        with pytest.raises(CorruptRecordError, match="checksum"):
            log.read()
        assert log.fix_crc().read() != [*golden.RECORDS]

    def test_a_torn_tail(self) -> None:
        with pytest.raises(CorruptRecordError, match="position 99: truncated"):
            Log(golden.CREATE_TIME, golden.COMPACTED).shrink(1).read()

    def test_zeroes(self) -> None:
        with pytest.raises(CorruptRecordError, match="position 0: size"):
            Log(golden.CREATE_TIME).zero(0, 99).read()

    def test_zeroes_under_a_right_checksum(self) -> None:
        log = Log(golden.CREATE_TIME).zero(70, 99).fix_crc()

        with pytest.raises(CorruptRecordError, match="position 0, offset 100: record 1 of 3"):
            log.read()

    def test_a_count_that_was_changed(self) -> None:
        log = Log(golden.CREATE_TIME).put(57, struct.pack(">i", 2)).fix_crc()

        with pytest.raises(CorruptRecordError, match="bytes are left after the last record"):
            log.read()

    def test_nothing_is_wrong_with_sound_bytes(self) -> None:
        assert Log(golden.CREATE_TIME).read() == [*golden.RECORDS]


class TestAnyDamage:
    @given(logs(), mutations(), st.integers(0, 40))
    @example(golden.CREATE_TIME, [(0.7, 1)], 0)
    @example(golden.CREATE_TIME, [(0.99, 3)], 0)
    def test_is_an_error_or_other_records(
        self, data: bytes, changes: list[tuple[float, int]], cut: int
    ) -> None:
        """Goal: no crash and no reading out of bounds, whatever the bytes. Method: sound logs with
        bytes changed anywhere and the end cut off; checksums are not looked at.
        """
        log = Log(data).shrink(min(cut, len(data)))
        for place, mask in changes if log.data else ():
            log.flip_byte(int(place * len(log.data)), mask)

        check_decodes_or_refuses(log)

    @given(st.lists(st.sampled_from([golden.CREATE_TIME, golden.COMPACTED]), min_size=1),
           mutations())  # fmt: skip
    def test_of_records_means_the_same_to_the_naive_reader(
        self, batches: list[bytes], changes: list[tuple[float, int]]
    ) -> None:
        """Goal: both agree on what is damage and on what the rest says. Method: bytes behind the
        batch header changed, where no codec and no limit of theirs plays a part.
        """
        log = Log(*batches)
        for place, mask in changes:
            batch = int(place * len(batches))
            start = sum(map(len, batches[:batch])) + 57
            end = sum(map(len, batches[: batch + 1]))
            log.flip_byte(start + int(place * 1e6) % (end - start), mask)

        assert log.outcome() == log.naive_outcome()

    @given(st.binary(max_size=60), st.integers(0, 5))
    def test_of_a_whole_record_means_the_same_to_the_naive_reader(
        self, body: bytes, count: int
    ) -> None:
        """Goal: as above, far from sound bytes. Method: batches of random bytes."""
        log = Log(raw_batch(body, count, last_delta=63))

        assert log.outcome() == log.naive_outcome()

    @given(st.lists(st.binary(max_size=20), max_size=4))
    def test_of_fields_means_the_same_to_the_naive_reader(self, bodies: list[bytes]) -> None:
        """Goal: as above, inside records. Method: random bytes behind right lengths."""
        body = b"".join(raw_record(HEAD + rest) for rest in bodies)
        log = Log(raw_batch(body, len(bodies), last_delta=0))

        assert log.outcome() == log.naive_outcome()
