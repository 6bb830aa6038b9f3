"""A client's batch: taken as a leader takes it, refused with Kafka's codes, stored as it came."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.config import TopicConfig
from sparklog.errors import ErrorCode, SparklogError
from sparklog.model import Codec, TimestampType
from sparklog.record.batches import byte_view
from sparklog.record.checksum import verify_checksums
from sparklog.record.client_batch import ClientBatch, check_client_batch
from sparklog.record.decode import decode
from sparklog.record.scan import scan_batches, unpack_header
from tests.client_batches import NOW_MS, batch_of, client_batch, with_fields
from tests.damage import Log, raw_batch, raw_record
from tests.naive.records import Record, rows
from tests.strategies import mutations, record_lists

DAY_MS = 24 * 3600 * 1000
PLAIN, COMPRESSED = Codec.NONE, Codec.ZSTD


def checked(data: bytes, version: int = 13, **config: str) -> ClientBatch:
    """The batch that a topic with these configs (with _ for a dot) takes at NOW_MS."""
    parsed = TopicConfig.parse({name.replace("_", "."): value for name, value in config.items()})
    return check_client_batch(data, parsed, NOW_MS, version)


def refused(data: bytes, version: int = 13, **config: str) -> SparklogError:
    """The error with which the batch is refused."""
    with pytest.raises(SparklogError) as found:
        checked(data, version, **config)
    return found.value


def code(data: bytes, version: int = 13, **config: str) -> ErrorCode:
    """The code of that error."""
    return refused(data, version, **config).code


def read(batch: ClientBatch) -> list[Record]:
    """The records of a stored batch, as a careful reader gets them."""
    return Log(batch.data.tobytes()).read()


class TestTaken:
    @pytest.mark.parametrize("codec", Codec)
    def test_is_stored_as_it_came(self, codec: Codec) -> None:
        data = client_batch("a", "b", codec=codec)

        assert checked(data).data.tobytes() == data

    def test_says_what_stands_in_it(self) -> None:
        times = [NOW_MS, NOW_MS - 5, NOW_MS + 7]
        data = client_batch(
            *"abc", times=times, producer_id=9, producer_epoch=2, base_sequence=4, attributes=16
        )

        found = checked(data)

        assert found[1:] == (3, NOW_MS - 5, NOW_MS + 7, Codec.NONE, 9, 2, 4, True)

    def test_records_without_a_time(self) -> None:
        some, none = client_batch("a", "b", times=[NOW_MS, -1]), client_batch("a", times=[-1])

        assert [checked(one)[2:4] for one in (some, none)] == [(-1, NOW_MS), (-1, -1)]

    def test_a_wrong_largest_time_is_made_right(self) -> None:
        stored = checked(client_batch("a", max_timestamp=5))

        assert stored.max_timestamp == NOW_MS
        assert stored.data.tobytes() == client_batch("a")

    def test_headers_may_have_any_text_as_key(self) -> None:
        records = [Record(0, NOW_MS, b"k", None, (("plain", None), ("größer", b"1")))]

        assert read(checked(batch_of(records))) == records


class TestRefused:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[:16],
            lambda data: data[:-1],
            lambda data: data + data,
            lambda data: data + b"\0",
            lambda data: with_fields(data, magic=1),
            lambda data: with_fields(data, base_offset=1),
            lambda data: with_fields(data, last_offset_delta=2),
            lambda data: with_fields(data, record_count=3),
            lambda data: with_fields(data, record_count=3, last_offset_delta=2),
            lambda data: with_fields(data, record_count=1, last_offset_delta=0),
            lambda data: with_fields(data, record_count=0, last_offset_delta=-1),
            lambda data: with_fields(data, attributes=0x20),
            lambda data: with_fields(data, attributes=0x40),
            lambda data: with_fields(data, attributes=int(Codec.LZ4)),
            lambda data: with_fields(data, producer_id=1, base_sequence=-1),
        ],
    )
    def test_what_is_not_one_batch_of_a_client(self, damage: Callable[[bytes], bytes]) -> None:
        assert code(damage(client_batch("a", "b"))) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: Log(data).flip_byte(len(data) - 1).data,
            lambda data: with_fields(data, magic=3),
            lambda data: with_fields(data, length=13),
            lambda data: with_fields(data, length=48),
        ],
    )
    def test_what_was_damaged_on_its_way(self, damage: Callable[[bytes], bytes]) -> None:
        assert code(bytes(damage(client_batch("a", "b")))) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize(
        "body",
        [
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\0\1\1\0"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\4\1\1\0"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\1\2\1\1"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\1\3"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\1\2\2\xff\1"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\x63\0"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\1\2\2a\x63"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\1\0\0"),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0\0\2\1\1" + b"\xff" * 6),
            raw_record(b"\0\0\0\1\1\0") + raw_record(b"\0" + b"\xff" * 11),
            raw_record(b"\0\0\0\1\1\0") + b"\x63",
        ],
        ids=[
            "the same offset twice",
            "a gap",
            "a header without a key",
            "fewer than no headers",
            "a header key that is not UTF-8",
            "a value longer than the record",
            "a header value longer than the record",
            "bytes behind the headers",
            "a number without an end",
            "a time without an end",
            "a record longer than the batch",
        ],
    )
    def test_damaged_records(self, body: bytes) -> None:
        data = raw_batch(body, 2, base_time=NOW_MS, max_time=NOW_MS)

        assert code(data) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("bits", [5, 6, 7])
    def test_codecs_that_do_not_exist(self, bits: int) -> None:
        data = client_batch("a", attributes=bits)

        assert code(data) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    def test_zstd_before_version_7(self) -> None:
        data = client_batch("a", codec=Codec.ZSTD)

        assert code(data, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert checked(data, version=7).codec == Codec.ZSTD

    def test_a_record_without_a_key_where_the_topic_is_compacted(self) -> None:
        data = client_batch("a", "b", keys=[b"k", None])

        assert code(data, cleanup_policy="compact") == ErrorCode.INVALID_RECORD
        assert checked(data, cleanup_policy="delete").record_count == 2

    @pytest.mark.parametrize("codec", [PLAIN, COMPRESSED])
    def test_the_records_that_are_to_blame_are_named(self, codec: Codec) -> None:
        limits: Any = {"message_timestamp_before_max_ms": str(DAY_MS)}
        keyless = client_batch("a", "b", "c", keys=[None, b"k", None], codec=codec)
        old = client_batch("a", "b", "c", times=[NOW_MS, NOW_MS - DAY_MS - 1, -1], codec=codec)
        negative = client_batch("a", "b", "c", times=[-7, NOW_MS, -1], codec=codec)

        assert vars(refused(keyless, cleanup_policy="compact"))["records"] == (0, 2)
        assert vars(refused(old, **limits))["records"] == (1,)
        assert vars(refused(negative))["records"] == (0,)

    def test_a_record_without_a_key_and_with_a_header_key_that_is_not_utf_8(self) -> None:
        batch = raw_batch(raw_record(bytes([0, 0, 0, 1, 0, 2, 2, 0xFF, 0])), 1)

        assert "header key" in refused(batch).message
        assert code(batch, cleanup_policy="compact") == ErrorCode.INVALID_RECORD

    def test_more_bytes_than_the_topic_allows(self) -> None:
        data = client_batch("a" * 2000)

        assert code(data, max_message_bytes="2000") == ErrorCode.MESSAGE_TOO_LARGE

    def test_more_bytes_than_a_segment(self) -> None:
        large: Any = {"max_message_bytes": str(2**30), "segment_bytes": str(2**20)}

        assert code(raw_batch(bytes(2**20), 1), **large) == ErrorCode.RECORD_LIST_TOO_LARGE

    @pytest.mark.parametrize("time", [-2, NOW_MS - DAY_MS - 1, NOW_MS + DAY_MS + 1])
    def test_times_that_the_topic_does_not_allow(self, time: int) -> None:
        limits: Any = {
            "message_timestamp_before_max_ms": str(DAY_MS),
            "message_timestamp_after_max_ms": str(DAY_MS),
        }

        assert code(client_batch("a", "b", times=[NOW_MS, time]), **limits) == (
            ErrorCode.INVALID_TIMESTAMP
        )

    def test_the_time_of_the_append_set_by_a_client(self) -> None:
        assert code(client_batch("a", attributes=8)) == ErrorCode.INVALID_TIMESTAMP


class TestStored:
    @pytest.mark.parametrize("codec", [PLAIN, COMPRESSED])
    def test_with_the_time_of_the_append(self, codec: Codec) -> None:
        data = client_batch("a", "b", times=[5, 6], codec=codec)
        found = checked(data, message_timestamp_type="LogAppendTime")

        assert (found.min_timestamp, found.max_timestamp) == (NOW_MS, NOW_MS)
        assert found.data.tobytes()[61:] == data[61:]
        assert [(row.timestamp, row.timestamp_type) for row in read(found)] == [
            (NOW_MS, TimestampType.LOG_APPEND_TIME)
        ] * 2

    @pytest.mark.parametrize("target", Codec)
    @pytest.mark.parametrize("sent", Codec)
    def test_with_the_codec_of_the_topic(self, sent: Codec, target: Codec) -> None:
        name = "uncompressed" if target is Codec.NONE else target.name.lower()
        data = client_batch("a", "b", codec=sent, producer_id=3, producer_epoch=1, base_sequence=8)
        found = checked(data, compression_type=name)

        assert found.codec == target
        assert read(found) == Log(data).read()
        header = unpack_header(found.data, 0)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 8)

    def test_not_when_it_has_become_too_large(self) -> None:
        data = client_batch("a" * 2000, codec=Codec.ZSTD)

        refused = code(data, compression_type="uncompressed", max_message_bytes="1000")
        assert refused == ErrorCode.MESSAGE_TOO_LARGE

    def test_not_when_readers_would_not_decompress_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.record.client_batch.BATCH_BYTES_MAX", 1000)
        data = client_batch("a" * 2000)

        assert code(data, compression_type="zstd") == ErrorCode.MESSAGE_TOO_LARGE
        assert checked(data, compression_type="uncompressed").data.tobytes() == data

    @given(records=record_lists(largest=64), codec=st.sampled_from(Codec))
    def test_whatever_stands_in_it(self, records: list[Record], codec: Codec) -> None:
        data = batch_of([one._replace(offset=i) for i, one in enumerate(records)], codec)
        times = [one.timestamp for one in records]
        found = checked(data, message_timestamp_after_max_ms=str(2**63 - 1))

        assert found[1:4] == (len(records), min(times), max(times))
        assert found.data.tobytes() == data


@given(
    records=record_lists(largest=64),
    codec=st.sampled_from([PLAIN, COMPRESSED]),
    changes=mutations(),
)
def test_what_is_taken_can_be_read(
    records: list[Record], codec: Codec, changes: list[tuple[float, int]]
) -> None:
    """Goal: no reader fails on a batch that was taken.

    Method: bytes of a batch are changed and its checksum made right; a leader that takes it must
    have found the records, their number and their times, that a reader finds.
    """
    log = Log(batch_of([one._replace(offset=i) for i, one in enumerate(records)], codec))
    for place, mask in changes:
        log.flip_byte(21 + int(place * (len(log.data) - 22)), mask)
    try:
        found = checked(bytes(log.fix_crc().data))
    except SparklogError:
        return
    scan = scan_batches(found.data)
    verify_checksums(found.data, scan.batches)
    read_back = rows(decode(found.data, scan.batches))
    times = [one.timestamp for one in read_back]
    assert [one.offset for one in read_back] == list(range(found.record_count))
    assert (found.min_timestamp, found.max_timestamp) == (min(times), max(times))
    assert scan.end == len(byte_view(found.data))
