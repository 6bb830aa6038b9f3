"""Message sets as record batches: every record keeps its offset, time, key and value."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError, InvalidTimestampError
from sparklog.model import Codec
from sparklog.record.checksum import verify_checksums
from sparklog.record.decode import decode
from sparklog.record.scan import scan_batches
from sparklog.record.up_convert import up_convert
from tests import golden
from tests.damage import Log
from tests.naive.messages import message, wrapper
from tests.naive.records import Record, rows
from tests.strategies import legacy_entries

T0 = golden.T0
RECORDS = [Record(7, T0, b"k0", b"v0"), Record(8, T0 + 5, None, b""), Record(11, T0, b"", None)]


def converted(data: bytes) -> tuple[list[Record], list[int]]:
    """The records behind a conversion, and the codec of each of its batches."""
    found, codecs = [], []
    for part, table in up_convert(data, scan_batches(data).batches):
        scanned = scan_batches(part)
        verify_checksums(part, scanned.batches)
        assert (table.position == scanned.batches.position).all()
        assert set(table.magic) == {2}
        found += rows(decode(part, table))
        codecs += table.codec.tolist()
    return found, codecs


def expected(records: list[Record]) -> list[Record]:
    """Magic 2 has a type for every time, if it is none."""
    return [one._replace(timestamp_type=max(one.timestamp_type, 0)) for one in records]


class TestUpConvert:
    @given(st.lists(legacy_entries(), min_size=1, max_size=3))
    @example([message(RECORDS[0]._replace(timestamp=-2), 1)])
    @example([message(RECORDS[0]._replace(timestamp=-1), 1)])
    @example(
        [wrapper([RECORDS[0]], 1, "gzip", -1), wrapper([RECORDS[1]._replace(timestamp=-1)], 1)]
    )
    def test_keeps_every_record(self, entries: list[bytes]) -> None:
        """Goal: nothing lost, nothing changed. Method: any entries back to back."""
        records = Log(*entries).read()
        try:
            found, _ = converted(b"".join(entries))
        except InvalidTimestampError:
            assert min(one.timestamp for one in records) < -1
            return

        assert found == expected(records)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_keeps_gaps_between_offsets(self, magic: int) -> None:
        data = b"".join(message(one, magic) for one in RECORDS)

        assert converted(data) == (expected(Log(data).read()), [0, 0])

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
    def test_keeps_the_codec(self, codec: str) -> None:
        data = wrapper(RECORDS[:2], 1, codec) + wrapper(RECORDS[2:], 1, codec, T0)

        assert converted(data) == (expected(Log(data).read()), [Codec[codec.upper()]] * 2)

    def test_keeps_the_time_of_each_append(self) -> None:
        times = [T0 + 1, T0 + 1, T0 + 2]
        data = b"".join(
            wrapper([one], 1, "gzip", time) for one, time in zip(RECORDS, times, strict=True)
        )
        found, _ = converted(data)

        assert [(one.timestamp, one.timestamp_type) for one in found] == [(t, 1) for t in times]

    def test_leaves_batches_as_they_are(self) -> None:
        batch = golden.CREATE_TIME
        data = message(RECORDS[0], 1) + batch
        (_, _), (same, table) = up_convert(data, scan_batches(data).batches)

        assert same is data
        assert table.position.tolist() == [len(data) - len(batch)]

    def test_names_the_place_of_damage(self) -> None:
        data = message(RECORDS[0], 1) + wrapper(RECORDS[1:], 1)
        cut = bytearray(data)
        cut[-1] ^= 1

        with pytest.raises(CorruptRecordError) as caught:
            list(up_convert(bytes(cut), scan_batches(bytes(cut)).batches))
        assert caught.value.position == len(message(RECORDS[0], 1))

    def test_names_the_place_of_damage_behind_sound_ones_of_its_run(self) -> None:
        sound = b"".join(wrapper([one], 1) for one in RECORDS[:2])
        cut = bytearray(sound + wrapper(RECORDS[2:], 1))
        cut[-1] ^= 1
        parts = up_convert(bytes(cut), scan_batches(bytes(cut)).batches)

        assert decode(*next(parts)).num_rows == 1
        with pytest.raises(CorruptRecordError) as caught:
            list(parts)
        assert caught.value.position == len(sound)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_takes_no_more_memory_than_one_may_need(
        self, magic: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.record.up_convert.BATCH_BYTES_MAX", 1000)
        large = [Record(at, T0, b"k", bytes(400)) for at in range(5)]
        data = b"".join(wrapper([one], magic) for one in large)
        parts = up_convert(data, scan_batches(data).batches)

        assert [decode(*part).num_rows for part in parts] == [2, 1, 2]
        assert converted(data)[0] == expected(Log(data).read())
