import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import UsageError
from sparklog.model import Codec
from sparklog.record import columns as columns_module
from sparklog.record.columns import SIZES
from sparklog.record.decode import ALL, decode
from sparklog.record.rows import HEADERS_TYPE
from sparklog.record.scan import scan_batches
from tests import golden
from tests.damage import Log, raw_batch, sparse_batch
from tests.naive.decode import read_log
from tests.naive.encode import record
from tests.naive.messages import message
from tests.naive.records import Record, rows
from tests.strategies import INT64_MAX, compressed, logs

T0 = golden.T0
R0, _, R2 = golden.RECORDS


def moved(records: tuple[Record, ...], base: int) -> list[Record]:
    return [one._replace(offset=one.offset - 100 + base) for one in records]


def with_stream(stream: bytes, codec: Codec) -> bytes:
    return raw_batch(stream, 3, base=0, attributes=int(codec), base_time=T0, max_time=T0 + 5)


def numbered_batch(base: int, count: int, attributes: int = 0) -> bytes:
    records = [Record(base + i, T0 + base + i, b"k%d" % i, b"v%d" % i) for i in range(count)]
    return sparse_batch(records, base, base + count - 1, attributes=attributes)


class TestBytesOfKafka:
    def test_a_plain_batch(self) -> None:
        assert rows(Log(golden.CREATE_TIME).decode()) == [*golden.RECORDS]

    def test_log_append_time_is_that_of_all_records(self) -> None:
        expected = [
            one._replace(timestamp=golden.APPEND_TIME, timestamp_type=1) for one in golden.RECORDS
        ]

        assert rows(Log(golden.LOG_APPEND_TIME).decode()) == expected

    def test_a_transactional_batch(self) -> None:
        assert rows(Log(golden.TRANSACTIONAL).decode()) == [*golden.RECORDS]

    def test_a_marker_is_skipped(self) -> None:
        assert rows(Log(golden.COMMIT_MARKER, golden.CREATE_TIME).decode()) == [*golden.RECORDS]

    @pytest.mark.parametrize(
        ("stream", "codec"),
        [
            (golden.SNAPPY_STREAM, Codec.SNAPPY),
            (golden.LZ4_STREAM, Codec.LZ4),
            (golden.ZSTD_STREAM, Codec.ZSTD),
        ],
    )
    def test_compressed_batches(self, stream: bytes, codec: Codec) -> None:
        assert rows(Log(with_stream(stream, codec)).decode()) == moved(golden.RECORDS, 0)

    def test_a_compacted_batch_keeps_offsets_and_times_under_a_delete_horizon(self) -> None:
        assert rows(Log(golden.COMPACTED).decode()) == [R0, R2]

    def test_an_emptied_batch(self) -> None:
        assert rows(Log(golden.EMPTIED).decode()) == []

    def test_messages_of_magic_0(self) -> None:
        expected = [
            one._replace(timestamp=-1, timestamp_type=-1, headers=()) for one in golden.RECORDS
        ]

        assert rows(Log(golden.MESSAGES_V0).decode()) == expected

    def test_a_message_of_magic_1(self) -> None:
        assert rows(Log(golden.MESSAGE_V1).decode()) == [R0._replace(headers=())]

    def test_all_formats_in_one_log(self) -> None:
        log = Log(golden.MESSAGES_V0, golden.MESSAGE_V1, golden.CREATE_TIME, golden.MESSAGE_V1)

        assert log.decode().num_rows == 3 + 1 + 3 + 1
        assert log.outcome() == log.naive_outcome()


class TestAnyLog:
    @given(logs())
    @example(b"")
    @example(golden.EMPTIED + golden.COMMIT_MARKER)
    def test_reads_what_the_naive_reader_reads(self, data: bytes) -> None:
        """Goal: the kernels know the formats. Method: logs over the whole wire range, decoded by a
        reader that takes one byte after the other.
        """
        assert rows(Log(data).decode()) == read_log(data)

    @given(logs(), st.sets(st.sampled_from(ALL)))
    def test_a_column_is_the_same_whatever_else_is_asked_for(
        self, data: bytes, chosen: set[str]
    ) -> None:
        """Goal: `columns` only leaves out. Method: any subset against all six."""
        everything = Log(data).decode()
        some = Log(data).decode(columns=chosen)

        assert some.num_rows == everything.num_rows
        for name in ALL:
            expected = getattr(everything, name) if name in chosen else None
            assert getattr(some, name) == expected

    @given(logs(), st.data())
    def test_a_window_drops_what_lies_outside(self, data: bytes, draw: st.DataObject) -> None:
        """Goal: exactly the offsets in [start, end). Method: filter what the naive reader says,
        with bounds at offsets that exist and beside them.
        """
        records = read_log(data)
        bound = st.sampled_from([0, *(one.offset for one in records)])
        start, end = draw.draw(bound), draw.draw(bound)
        inside = [one for one in records if start <= one.offset < end]

        assert rows(Log(data).decode(start_offset=start, end_offset=end)) == inside


class TestColumns:
    def test_have_their_types(self) -> None:
        got = Log(golden.CREATE_TIME).decode()

        assert got.key.type == got.value.type == pa.binary()
        assert got.offset.type == got.timestamp.type == pa.int64()
        assert got.timestamp_type.type == pa.int32()
        assert got.headers.type == HEADERS_TYPE

    @pytest.mark.parametrize("name", ["key", "value", "headers"])
    def test_are_valid_arrow(self, name: str) -> None:
        getattr(Log(golden.CREATE_TIME, numbered_batch(200, 9)).decode(), name).validate(full=True)

    def test_are_none_when_not_asked_for(self) -> None:
        got = Log(golden.CREATE_TIME).decode(columns=["offset"])

        assert got.offset.to_pylist() == [100, 101, 102]
        assert got.key is got.value is got.timestamp is got.timestamp_type is got.headers is None

    @given(logs())
    def test_sizes_are_those_of_keys_and_values(self, data: bytes) -> None:
        """Goal: sizes without bytes. Method: any log, both asked for at once."""
        got = Log(data).decode(columns=("key", "value", *SIZES))

        for values, sizes in ((got.key, got.key_size), (got.value, got.value_size)):
            lengths = [-1 if one is None else len(one) for one in values.to_pylist()]
            assert sizes.to_pylist() == lengths

    def test_none_at_all_still_counts(self) -> None:
        assert Log(golden.CREATE_TIME).decode(columns=()).num_rows == 3

    def test_an_unknown_name_is_refused(self) -> None:
        with pytest.raises(UsageError, match=r"'vaule'.*key, value, offset"):
            Log(golden.CREATE_TIME).decode(columns=["key", "vaule"])

    def test_have_no_bitmap_without_nulls(self) -> None:
        got = Log(numbered_batch(0, 9)).decode()

        assert got.key.buffers()[0] is None
        assert got.value.buffers()[0] is None

    def test_null_is_not_empty(self) -> None:
        records = [Record(0, T0, b"", None), Record(1, T0, None, b"")]

        assert rows(Log(sparse_batch(records, 0, 1)).decode()) == records

    def test_headers_are_null_where_a_record_has_none(self) -> None:
        got = Log(golden.CREATE_TIME).decode().headers

        assert got.to_pylist() == [
            [{"key": "h1", "value": b"x"}, {"key": "h2", "value": None}], None, None,
        ]  # fmt: skip

    def test_headers_keep_their_order_and_repeated_keys(self) -> None:
        headers = (("b", b"1"), ("a", None), ("b", b""), ("", b"2"))
        records = [Record(0, T0, None, None, headers)]

        assert rows(Log(sparse_batch(records, 0, 0)).decode()) == records

    def test_record_attributes_are_ignored(self) -> None:
        body = bytearray(record(Record(0, T0, b"k", b"v"), T0, 0))
        body[1] = 0xFF

        assert rows(Log(raw_batch(bytes(body), 1)).decode()) == [Record(0, T0, b"k", b"v")]

    @pytest.mark.parametrize("first", [-1, 0, INT64_MAX])
    @pytest.mark.parametrize("second", [-1, 0, INT64_MAX])
    def test_timestamps_may_lie_further_apart_than_int64(self, first: int, second: int) -> None:
        records = [Record(0, first, None, None), Record(1, second, None, None)]

        assert rows(Log(sparse_batch(records, 0, 1)).decode()) == records

    def test_the_last_offset_there_is(self) -> None:
        records = [Record(INT64_MAX, T0, None, None)]

        assert rows(Log(sparse_batch(records, INT64_MAX, INT64_MAX)).decode()) == records


class TestWindow:
    def test_shift_moves_offsets(self) -> None:
        got = Log(golden.CREATE_TIME, golden.MESSAGE_V1).decode(shift=-90)

        assert got.offset.to_pylist() == [10, 11, 12, 10]

    def test_bounds_are_those_of_the_log(self) -> None:
        got = Log(golden.CREATE_TIME).decode(shift=900, start_offset=1001, end_offset=1002)

        assert got.offset.to_pylist() == [1001]
        assert got.value.to_pylist() == [b"v1"]

    def test_headers_of_dropped_rows_are_dropped(self) -> None:
        got = Log(golden.CREATE_TIME).decode(start_offset=101)

        assert got.headers.to_pylist() == [None, None]

    def test_batches_outside_are_not_looked_at(self) -> None:
        damaged = raw_batch(b"nonsense", 1, base=0)
        log = Log(damaged, numbered_batch(1, 3), damaged[:7] + b"\x09" + damaged[8:])

        assert log.decode(start_offset=1, end_offset=9).offset.to_pylist() == [1, 2, 3]

    def test_gaps_are_no_rows(self) -> None:
        records = [Record(7, T0, b"a", b"b"), Record(7 + 2**31 - 1, T0, b"a", b"b")]
        log = Log(sparse_batch(records, 7, 7 + 2**31 - 1))

        assert rows(log.decode()) == records
        assert log.decode(start_offset=8, end_offset=7 + 2**31 - 1).num_rows == 0


class TestInput:
    @pytest.mark.parametrize("make", [bytes, bytearray, memoryview, pa.py_buffer])
    def test_any_buffer(self, make: type) -> None:
        data = make(golden.CREATE_TIME)

        assert rows(decode(data, scan_batches(data).batches)) == [*golden.RECORDS]

    def test_a_part_of_the_table(self) -> None:
        data = numbered_batch(0, 2) + golden.COMMIT_MARKER + numbered_batch(2, 3)
        batches = scan_batches(data).batches

        assert decode(data, batches.slice(1, 3)).offset.to_pylist() == [2, 3, 4]

    def test_compressed_and_plain_batches_interleaved(self) -> None:
        parts = [
            compressed(numbered_batch(10 * i, 3, attributes=int(codec)), codec)
            for i, codec in enumerate([*Codec, *reversed(Codec)])
        ]
        log = Log(*parts)

        assert log.decode().offset.to_pylist() == [10 * i + j for i in range(10) for j in range(3)]
        assert log.outcome() == log.naive_outcome()

    def test_what_cannot_fit_into_arrow_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(columns_module, "COLUMN_BYTES_MAX", len(golden.PLAIN_RECORDS) * 2 - 1)
        log = Log(golden.CREATE_TIME, golden.CREATE_TIME)

        with pytest.raises(UsageError, match=r"hold 76 bytes .* at most 75 .* fewer batches"):
            log.decode(columns=["value"])
        assert log.decode(columns=["offset", "timestamp"]).num_rows == 6

    def test_message_sets_share_that_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(columns_module, "COLUMN_BYTES_MAX", 40)
        one = message(Record(0, T0, b"k", b"v"), 1)

        with pytest.raises(UsageError, match="at most 40"):
            Log(one, one).decode()
