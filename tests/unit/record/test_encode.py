from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    UnknownTopicError,
)
from sparklog.model import Codec, TimestampType
from sparklog.record.batches import COLUMNS, byte_view
from sparklog.record.checksum import verify_checksums
from sparklog.record.codecs.compression import compress
from sparklog.record.decode import decode
from sparklog.record.encode import BatchSettings, EncodedStream, RecordColumns, encode
from sparklog.record.rows import HEADERS_TYPE
from sparklog.record.scan import scan_batches, unpack_header
from tests import golden
from tests.naive import encode as naive
from tests.naive.records import Record

LARGEST = 2**63 - 1
TIMES = st.one_of(st.integers(-1, LARGEST), st.integers(golden.T0 - 200, golden.T0 + 200))
FIELDS = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"", bytes(63), bytes(64)]))
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELDS), max_size=3).map(tuple)
STEPS = st.one_of(st.integers(1, 3), st.sampled_from([2**31 - 1, 2**31]), st.integers(1, 2**50))
RECORDS = st.builds(partial(Record, 0), TIMES, FIELDS, FIELDS, HEADERS)


def columns(records: Sequence[Record], *, before: int = 0, own: bool = False) -> RecordColumns:
    """The records as columns that are slices: `before` rows lie before them, and one behind.

    With `own` they bring their offsets.
    """
    stuffing = Record(0, 0, b"stuffing", None, (("no", b"no"),))
    padded = [*[stuffing] * before, *records, stuffing]
    cells = [list(one.headers) or None for one in padded]
    part = slice(before, before + len(records))
    return RecordColumns(
        pa.array([one.key for one in padded], pa.binary())[part],
        pa.array([one.value for one in padded], pa.binary())[part],
        np.array([one.timestamp for one in padded], np.int64)[part],
        pa.array(cells, HEADERS_TYPE)[part],
        np.array([one.offset for one in padded], np.int64)[part] if own else None,
    )


def encode_one(
    records: Sequence[Record], base_offset: int = 0, settings: BatchSettings | None = None
) -> EncodedStream:
    [stream] = encode(
        columns(records), None, 1, np.array([base_offset]), settings or BatchSettings()
    )
    return stream


def plain(count: int, size: int = 10) -> list[Record]:
    return [Record(0, golden.T0 + i, None, bytes(size)) for i in range(count)]


class TestKafkasBytes:
    def test_create_time(self) -> None:
        stream = encode_one(golden.RECORDS, 100, BatchSettings(leader_epoch=5))

        assert bytes(stream.data) == golden.CREATE_TIME
        assert stream.min_timestamps.tolist() == [golden.T0 - 10]
        assert stream.record_count == 3

    def test_log_append_time(self) -> None:
        settings = BatchSettings(
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            log_append_time_ms=golden.APPEND_TIME,
            leader_epoch=5,
        )
        stream = encode_one(golden.RECORDS, 100, settings)

        assert bytes(stream.data) == golden.LOG_APPEND_TIME
        assert stream.min_timestamps.tolist() == [golden.APPEND_TIME]

    @pytest.mark.parametrize(
        ("codec", "stream", "crc"),
        (
            (Codec.SNAPPY, golden.SNAPPY_STREAM, golden.SNAPPY_CRC),
            (Codec.LZ4, golden.LZ4_STREAM, golden.LZ4_CRC),
        ),
    )
    def test_compressed(self, codec: Codec, stream: bytes, crc: int) -> None:
        data = bytes(encode_one(golden.RECORDS, 0, BatchSettings(codec=codec)).data)

        assert data[61:] == stream
        assert unpack_header(byte_view(data), 0).crc == crc


class TestAgainstTheTwin:
    @given(
        st.lists(st.tuples(RECORDS, st.integers(0, 2)), max_size=40),
        st.integers(0, 400),
        st.sampled_from(Codec),
        st.integers(0, 9),
    )
    @example([(Record(0, t, b"", None), 0) for t in (-1, LARGEST, -1, 0)], 200, Codec.NONE, 0)
    @example([(one, 1) for one in plain(40, 100)], 16384, Codec.ZSTD, 3)
    def test_every_stream_has_the_same_bytes(
        self, routed: list[tuple[Record, int]], batch_bytes: int, codec: Codec, before: int
    ) -> None:
        """Goal: byte for byte what the plain-Python twin writes, and a table that says so.

        Method: records over the whole range of times and sizes, as slices of longer columns,
        scattered over three streams with different base offsets and leader epochs.
        """
        bases = np.array([0, 10**12, LARGEST - 100])
        records = [record for record, _ in routed]
        streams = np.array([number for _, number in routed], np.int32)
        epochs = np.array([3, 0, 7])
        settings = BatchSettings(codec=codec, batch_bytes=batch_bytes)
        encoded = encode(columns(records, before=before), streams, 3, bases, settings, epochs)

        twins = [
            naive.Settings(codec, batch_bytes, epoch, compress=partial(compress, codec))
            for epoch in epochs.tolist()
        ]
        expected = {
            number: naive.stream(mine, int(bases[number]), twins[number])
            for number in range(3)
            if (mine := [record for record, to in routed if to == number])
        }
        assert {one.stream: bytes(one.data) for one in encoded} == {
            number: b"".join(batches) for number, batches in expected.items()
        }
        for one in encoded:
            scanned = scan_batches(one.data)
            assert scanned.problem is None
            for name in COLUMNS:
                assert getattr(one.batches, name).tolist() == (
                    getattr(scanned.batches, name).tolist()
                )
            verify_checksums(one.data, one.batches)
            mine = [record for record, to in routed if to == one.stream]
            assert one.record_count == len(mine)
            ends = np.cumsum(one.batches.record_count)[:-1]
            times = np.split(np.array([record.timestamp for record in mine]), ends)
            assert one.min_timestamps.tolist() == [each.min() for each in times]


class TestOwnOffsets:
    @given(
        st.lists(st.tuples(RECORDS, st.integers(0, 2), STEPS), max_size=40),
        st.integers(0, 400),
        st.sampled_from(Codec),
        st.integers(0, 9),
    )
    @example([(one, 0, 2**31 - 1) for one in plain(5)], 16384, Codec.NONE, 0)
    @example([(one, 0, 2**30) for one in plain(9)], 16384, Codec.NONE, 0)
    @example([(one, 0, 2**40) for one in plain(40)], 10**6, Codec.GZIP, 1)
    def test_are_kept_byte_for_byte(
        self, routed: list[tuple[Record, int, int]], batch_bytes: int, codec: Codec, before: int
    ) -> None:
        """Goal: batches keep the gaps, and the table of them says so; none is wider than an int32.

        Method: records scattered over three streams, each further on than the one before it by
        anything from 1 to beyond what a batch can span, against the twin.
        """
        offsets = accumulate(step for _, _, step in routed)
        rows = [one._replace(offset=at) for (one, _, _), at in zip(routed, offsets, strict=True)]
        streams = np.array([number for _, number, _ in routed], np.int32)
        settings = BatchSettings(codec=codec, batch_bytes=batch_bytes)
        sparse = columns(rows, before=before, own=True)
        encoded = encode(sparse, streams, 3, np.zeros(3, np.int64), settings)

        twin = naive.Settings(codec, batch_bytes, compress=partial(compress, codec))
        assert {one.stream: bytes(one.data) for one in encoded} == {
            number: b"".join(naive.sparse(mine, twin))
            for number in range(3)
            if (mine := [one for one, to in zip(rows, streams, strict=True) if to == number])
        }
        for one in encoded:
            scanned = scan_batches(one.data).batches
            assert one.batches.base_offset.tolist() == scanned.base_offset.tolist()
            assert one.batches.last_offset.tolist() == scanned.last_offset.tolist()

    def test_run_from_a_batchs_first_record_to_its_last(self) -> None:
        rows = [Record(at, 0, None, bytes(10)) for at in (5, 6, 9, 20, 21)]
        settings = BatchSettings(batch_bytes=61 + 3 * len(naive.plain(plain(1))))
        (stream,) = encode(columns(rows, own=True), None, 1, np.zeros(1, np.int64), settings)

        assert stream.batches.base_offset.tolist() == [5, 20]
        assert stream.batches.last_offset.tolist() == [9, 21]
        assert stream.batches.record_count.tolist() == [3, 2]
        assert stream.record_count == 5


class TestBatching:
    def test_a_batch_takes_what_fits_and_not_a_byte_more(self) -> None:
        record = len(naive.plain(plain(1)))
        fits = 61 + 3 * record
        sizes = {
            limit: encode_one(
                plain(6), settings=BatchSettings(batch_bytes=limit)
            ).batches.record_count.tolist()
            for limit in (fits - 1, fits, fits + 1)
        }

        assert sizes == {fits - 1: [2, 2, 2], fits: [3, 3], fits + 1: [3, 3]}

    @pytest.mark.parametrize("batch_bytes", (0, 1, 61, 62))
    def test_a_batch_takes_at_least_one_record(self, batch_bytes: int) -> None:
        stream = encode_one(plain(3), settings=BatchSettings(batch_bytes=batch_bytes))

        assert stream.batches.record_count.tolist() == [1, 1, 1]

    def test_no_batch_of_many_records_exceeds_what_the_topic_allows(self) -> None:
        settings = BatchSettings(batch_bytes=10**6, max_message_bytes=200)
        stream = encode_one(plain(100), settings=settings)

        assert stream.batches.size.max() <= 200
        assert len(stream.batches) > 1

    def test_offsets_run_on_from_batch_to_batch(self) -> None:
        stream = encode_one(plain(7), 1000, BatchSettings(batch_bytes=110))

        assert stream.batches.base_offset.tolist() == [1000, 1002, 1004, 1006]
        assert stream.batches.last_offset.tolist() == [1001, 1003, 1005, 1006]

    def test_the_first_timestamp_is_the_base_and_the_greatest_the_maximum(self) -> None:
        records = [Record(0, time, None, b"") for time in (50, 70, -1, 60)]
        stream = encode_one(records)

        assert stream.batches.base_timestamp.tolist() == [50]
        assert stream.batches.max_timestamp.tolist() == [70]
        assert stream.min_timestamps.tolist() == [-1]


class TestRoom:
    @pytest.mark.parametrize("codec", list(Codec))
    def test_is_left_for_what_compression_adds(self, codec: Codec) -> None:
        noise = np.random.default_rng(1).bytes(400_000)
        values = pa.array([noise[at : at + 1000] for at in range(0, len(noise), 1000)])
        rows = RecordColumns(values, values, np.zeros(len(values), np.int64))
        settings = BatchSettings(codec, batch_bytes=2**20, max_message_bytes=50_000)

        sizes = encode(rows, None, 1, np.zeros(1, np.int64), settings)[0].batches.size

        assert sizes.max() <= 50_000
        assert sizes[:-1].min() > 10_000


class TestStreams:
    def test_streams_without_rows_are_absent(self) -> None:
        streams = np.array([4, 2, 4], np.int32)
        encoded = encode(columns(plain(3)), streams, 6, np.zeros(6, np.int64), BatchSettings())

        assert [(one.stream, one.record_count) for one in encoded] == [(2, 1), (4, 2)]

    def test_no_rows_are_no_streams(self) -> None:
        assert encode(columns([]), None, 1, np.zeros(1, np.int64), BatchSettings()) == []

    def test_a_thousand_streams_take_no_more_memory_than_the_rows(self) -> None:
        streams = np.arange(1000, dtype=np.int32)
        encoded = encode(
            columns(plain(1000, 100)), streams, 1000, np.zeros(1000, np.int64), BatchSettings()
        )
        owner: Any = encoded[0].data.base

        assert len(encoded) == 1000
        assert owner.nbytes < 2 * sum(len(one.data) for one in encoded)


class TestRefusals:
    def refusal(self, records: Sequence[Record], stream: int = 0, **settings: Any) -> Any:
        streams = np.full(len(records), stream, np.int32)
        with pytest.raises(
            (InvalidRecordError, InvalidTimestampError, RecordTooLargeError, UnknownTopicError)
        ) as caught:
            encode(
                columns(records, before=2),
                streams,
                2,
                np.zeros(2, np.int64),
                BatchSettings(**settings),
            )
        return caught.value

    @pytest.mark.parametrize("timestamp", (-2, -(2**63)))
    def test_a_negative_timestamp(self, timestamp: int) -> None:
        error = self.refusal([*plain(2), Record(0, timestamp, None, None)])

        assert isinstance(error, InvalidTimestampError)
        assert f"row 2 has timestamp {timestamp};" in error.message

    @pytest.mark.parametrize("stream", (-1, 2))
    def test_a_stream_that_does_not_exist(self, stream: int) -> None:
        error = self.refusal(plain(2), stream)

        assert isinstance(error, UnknownTopicError)
        assert error.message == (f"row 0 has partition {stream}; the topic has partitions 0 to 1")

    def test_a_header_without_key(self) -> None:
        bad = Record(0, 0, None, None, (("ok", b""), (None, b"")))  # type: ignore[arg-type] # subject
        error = self.refusal([*plain(1), bad])

        assert isinstance(error, InvalidRecordError)
        assert error.message == "row 1 has a header without a key"

    def test_a_record_that_needs_too_large_a_batch(self) -> None:
        alone = 61 + len(naive.plain(plain(1, 1000)))
        records = [*plain(3), *plain(1, 1000)]
        encode_one(records, settings=BatchSettings(max_message_bytes=alone))
        error = self.refusal(records, max_message_bytes=alone - 1)

        assert isinstance(error, RecordTooLargeError)
        assert (error.row, error.size, error.limit) == (3, alone, alone - 1)  # type: ignore[attr-defined] # details
        assert "max.message.bytes" in error.message

    def test_compression_may_make_a_record_small_enough(self) -> None:
        settings = BatchSettings(codec=Codec.ZSTD, max_message_bytes=200)

        assert encode_one(plain(1, 100_000), settings=settings).batches.size.item() < 200

    def test_a_record_that_compression_does_not_make_small_enough(self) -> None:
        noise = np.random.default_rng(1).bytes(500)
        records = [*plain(3), Record(0, 0, None, noise)]
        error = self.refusal(records, codec=Codec.GZIP, max_message_bytes=400)

        assert isinstance(error, RecordTooLargeError)
        assert error.row == 3  # type: ignore[attr-defined] # details are attributes


class TestBeforeCompression:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.record.batch_settings.BATCH_BYTES_MAX", 1000)

    def read(self, records: Sequence[Record], codec: Codec = Codec.ZSTD) -> int:
        """How many records a reader gets who takes batches of 1,000 bytes when decompressed."""
        stream = encode_one(records, settings=BatchSettings(codec=codec, batch_bytes=2**20))
        return decode(stream.data, stream.batches, max_bytes=1000).num_rows

    def test_a_record_is_no_larger_than_readers_take(self) -> None:
        room = 1000 - len(naive.plain(plain(1, 990))) + 990
        assert self.read(plain(1, room)) == 1

        with pytest.raises(RecordTooLargeError, match="row 0 .* before compression, .* 1061$"):
            self.read(plain(1, room + 1))

    def test_a_batch_of_several_records_is_no_larger_either(self) -> None:
        assert self.read(plain(99, 100)) == 99

    def test_without_a_codec_there_is_no_such_limit(self) -> None:
        assert self.read(plain(1, 9999), Codec.NONE) == 1
