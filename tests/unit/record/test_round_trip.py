"""What is written is what is read: encode and decode, alone and against the naive writer."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.model import Codec, TimestampType
from sparklog.record.encode import BatchSettings, encode
from sparklog.record.rows import RecordColumns
from sparklog.record.scan import scan_batches
from tests import golden
from tests.damage import Log
from tests.naive import encode as naive
from tests.naive.records import Record, binary_column, header_column, rows, timestamps
from tests.strategies import INT64_MAX, SIZE_EDGES, base_offsets, compressed, record_lists

EDGES = [
    Record(0, -1, None, None),
    Record(0, INT64_MAX, b"", b"", (("", None), ("", b""))),
    *(Record(0, golden.T0 + size, bytes(size), b"x" * size) for size in SIZE_EDGES),
    Record(0, 0, None, b"v", (("ü", b"1"), ("a", None), ("ü", b"2"))),
]


def columns(records: Sequence[Record]) -> RecordColumns:
    return RecordColumns(
        binary_column(one.key for one in records),
        binary_column(one.value for one in records),
        timestamps(records),
        header_column(records),
    )


def numbered(records: Sequence[Record], base: int) -> list[Record]:
    return [one._replace(offset=base + i) for i, one in enumerate(records)]


def round_trip(
    records: Sequence[Record], streams: Sequence[int], bases: Sequence[int], settings: BatchSettings
) -> dict[int, list[Record]]:
    """The records of each stream as they come back."""
    encoded = encode(
        columns(records),
        np.array(streams, np.int32),
        len(bases),
        np.array(bases, np.int64),
        settings,
    )
    return {one.stream: Log(bytes(one.data)).read() for one in encoded}


class TestRoundTrip:
    @pytest.mark.parametrize("codec", Codec)
    @given(record_lists(), base_offsets(100), st.integers(61, 2000), st.data())
    @example(EDGES, 0, 16384, None)
    @example(EDGES, 2**31 - 1, 61, None)
    def test_brings_back_every_record_of_every_stream_in_order(
        self,
        codec: Codec,
        records: list[Record],
        base: int,
        batch_bytes: int,
        draw: st.DataObject | None,
    ) -> None:
        """Goal: nothing is lost, changed or moved. Method: records over the whole wire range,
        scattered over three streams, in batches from one record to all; checksums verified.
        """
        stream = st.integers(0, 2)
        streams = [i % 3 if draw is None else draw.draw(stream) for i in range(len(records))]
        settings = BatchSettings(codec=codec, batch_bytes=batch_bytes)
        bases = [base, 0, base + 50]
        expected = {
            one: numbered(
                [r for r, s in zip(records, streams, strict=True) if s == one], bases[one]
            )
            for one in sorted(set(streams))
        }

        assert round_trip(records, streams, bases, settings) == expected

    @given(record_lists(64), st.integers(0, INT64_MAX))
    def test_gives_all_records_the_time_of_the_append(
        self, records: list[Record], time: int
    ) -> None:
        """Goal: LogAppendTime wins. Method: any records, any time."""
        settings = BatchSettings(
            timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=time
        )
        expected = [one._replace(timestamp=time, timestamp_type=1) for one in numbered(records, 0)]

        assert round_trip(records, [0] * len(records), [0], settings) == {0: expected}


class TestNaiveWriter:
    @given(record_lists(64), base_offsets(8), st.integers(61, 300), st.sampled_from(Codec))
    @example(EDGES[:4], 7, 61, Codec.NONE)
    def test_is_read_back(
        self, records: list[Record], base: int, batch_bytes: int, codec: Codec
    ) -> None:
        """Goal: decoding does not lean on encoding. Method: bytes of a writer that knows the
        format from its description alone.
        """
        settings = naive.Settings(attributes=int(codec), batch_bytes=batch_bytes)
        log = Log(*(compressed(one, codec) for one in naive.stream(records, base, settings)))

        assert rows(log.decode()) == numbered(records, base)

    @given(record_lists(64), base_offsets(8))
    def test_writes_the_same_bytes(self, records: list[Record], base: int) -> None:
        """Goal: a reader cannot tell the two writers apart. Method: byte by byte."""
        [one] = encode(columns(records), None, 1, np.array([base]), BatchSettings())
        expected = b"".join(naive.stream(records, base, naive.Settings()))

        assert bytes(one.data) == expected
        assert len(scan_batches(expected).batches) == len(one.batches)
