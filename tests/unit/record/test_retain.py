from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError
from sparklog.model import Codec
from sparklog.record.batches import BatchTable
from sparklog.record.checksum import verify_checksums
from sparklog.record.decode import decode
from sparklog.record.retain import Retained, Rules, retain, retain_in_parts
from sparklog.record.scan import scan_batches
from tests import golden
from tests.damage import Log, raw_batch, raw_record
from tests.naive import encode as naive_encode
from tests.naive import retain as naive
from tests.naive.decode import MalformedError, read_log
from tests.naive.records import Record
from tests.strategies import base_offsets, compressed, headers, numbered

T0, NOW = golden.T0, golden.T0 + 5000
DAY_MS = 86_400_000
TRANSACTIONAL = 16
FOR_EVER = 2**63 - 1  # the largest delete.retention.ms, and the latest delete horizon


def ours(rules: naive.Rules, batches: BatchTable) -> Rules:
    """The rules of the naive one."""
    bases = batches.base_offset.tolist()
    return Rules(
        dropped=np.array(sorted(rules.dropped), np.int64),
        aborted=np.array([base in rules.aborted for base in bases], np.bool_),
        stays_empty=np.array([base in rules.stays_empty for base in bases], np.bool_),
        now_ms=rules.now_ms,
        delete_retention_ms=rules.delete_retention_ms,
    )


def retained(data: bytes, rules: naive.Rules, shift: int = 0) -> Retained:
    """Ask with the rules of the naive one."""
    batches = scan_batches(data).batches
    return retain(data, batches, ours(rules, batches), shift=shift)


def left(data: bytes, shift: int = 0, **rules: Any) -> bytes:
    """The bytes that are left."""
    given = naive.Rules(**{"now_ms": NOW, "delete_retention_ms": DAY_MS} | rules)
    return retained(data, given, shift).data.tobytes()


def records_left(data: bytes, **rules: Any) -> list[Record]:
    """The records that are left, as a careful reader gets them."""
    return Log(left(data, **rules)).read()


def made(
    records: Sequence[Record], last: int, attributes: int = 0, base_time: int | None = None
) -> bytes:
    """A batch; with a base time that is none of its records'."""
    base, first = records[0].offset, records[0].timestamp if base_time is None else base_time
    body = b"".join(naive_encode.record(one, first, one.offset - base) for one in records)
    newest = max(one.timestamp for one in records)
    header = {"base": base, "last_delta": last - base, "attributes": attributes}
    return raw_batch(body, len(records), base_time=first, max_time=newest, **header)


# --- any log -------------------------------------------------------------------------------------

some_records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.one_of(st.integers(T0 - 70, T0 + 70), st.sampled_from([-1, 0, 2**63 - 1])),
        st.sampled_from([b"a", b"b", b"", None]),
        st.sampled_from([b"1", b"", b"long" * 30, None, None]),
        headers(),
    ),
    min_size=1,
    max_size=5,
)


@st.composite
def batches(draw: Callable[..., Any], base: int) -> tuple[bytes, int]:
    """A batch at `base`, of any codec and time, with gaps; and the offset behind it."""
    records = draw(some_records)
    gaps = draw(st.lists(st.integers(1, 3), min_size=len(records), max_size=len(records)))
    records = numbered(records, gaps, base)
    last = records[-1].offset + gaps[-1] - 1
    codec = draw(st.sampled_from(Codec))
    attributes = int(codec) | draw(st.sampled_from([0, naive.APPEND_TIME, TRANSACTIONAL]))
    horizon = draw(st.sampled_from([None, NOW - 1, NOW, NOW + 1]))
    attributes |= naive.HAS_HORIZON * (horizon is not None)
    return compressed(made(records, last, attributes, horizon), codec), last + 1


def placed(offset: int, batch: bytes) -> tuple[bytes, int]:
    """A golden batch of up to three offsets at another one; and the offset behind it."""
    return offset.to_bytes(8, "big") + batch[8:], offset + 3


@st.composite
def logs(draw: Callable[..., Any]) -> tuple[bytes, list[int]]:
    """Up to five batches, markers and emptied ones among them; and all their offsets."""
    base = offset = draw(base_offsets(1100))
    data = b""
    for _ in range(draw(st.integers(1, 5))):
        fixed = st.sampled_from([golden.COMMIT_MARKER, golden.EMPTIED])
        others = fixed.map(partial(placed, offset))
        more, offset = draw(st.one_of(batches(offset), batches(offset), others))
        data += more
    return data, list(range(base, offset))


@st.composite
def rules(draw: Callable[..., Any], offsets: list[int]) -> naive.Rules:
    some = st.frozensets(st.sampled_from(offsets))
    retention_ms = st.sampled_from([0, DAY_MS, FOR_EVER - NOW, FOR_EVER])
    return naive.Rules(draw(some), draw(some), draw(some), NOW, draw(retention_ms))


class TestAnyLog:
    @given(logs().flatmap(lambda log: st.tuples(st.just(log[0]), rules(log[1]))))
    @example((golden.CREATE_TIME, naive.Rules(now_ms=NOW)))
    def test_leaves_what_a_filter_leaves(self, case: tuple[bytes, naive.Rules]) -> None:
        """Headers and records, byte for byte but for how they are compressed."""
        data, rules = case
        found, expected = retained(data, rules), naive.retain(data, rules)
        out = found.data.tobytes()
        times = [one.timestamp for one in read_log(out)]

        assert list(naive.opened(out)) == expected
        assert found.min_timestamp == min(times, default=None)
        assert found.delete_horizon_ms == min(
            map(_horizon, filter(_protects, expected)), default=None
        )
        verify_checksums(out, scan_batches(out).batches)

    @given(logs().flatmap(lambda log: st.tuples(st.just(log[0]), rules(log[1]))))
    @example((golden.CREATE_TIME + golden.COMMIT_MARKER, naive.Rules(now_ms=NOW)))
    def test_describes_the_batches_that_it_returns(self, case: tuple[bytes, naive.Rules]) -> None:
        data, rules = case
        found = retained(data, rules)
        scanned = scan_batches(found.data.tobytes())

        assert scanned.problem is None
        for name in vars(type(scanned.batches))["__dataclass_fields__"]:
            ours, theirs = getattr(found.batches, name), getattr(scanned.batches, name)
            assert ours.tolist() == theirs.tolist(), name

    @given(logs().flatmap(lambda log: st.tuples(st.just(log), rules(log[1]))))
    def test_shifts_every_offset_and_nothing_else(
        self, case: tuple[tuple[bytes, list[int]], naive.Rules]
    ) -> None:
        (data, _), rules = case
        plain, shifted = retained(data, rules), retained(data, rules, shift=1000)
        moved = [
            batch._replace(header=batch.header._replace(base=batch.header.base + 1000))
            for batch in naive.opened(plain.data.tobytes())
        ]

        assert list(naive.opened(shifted.data.tobytes())) == moved
        assert shifted.batches.base_offset.tolist() == [batch.header.base for batch in moved]


def _protects(batch: naive.Opened) -> bool:
    """Whether it holds a tombstone."""
    return not batch.header.attributes & naive.CONTROL and not all(
        one.has_value for one in naive.raw_records(batch)
    )


def _horizon(batch: naive.Opened) -> int:
    return batch.header.base_time


# --- as Kafka ------------------------------------------------------------------------------------


class TestAsKafka:
    def test_leaves_the_bytes_that_kafka_leaves(self) -> None:
        """r1 has no key; r2 is a tombstone, so the batch gets a delete horizon."""
        assert left(golden.CREATE_TIME) == golden.COMPACTED

    def test_leaves_a_header_of_the_bytes_that_kafka_leaves(self) -> None:
        data = left(
            golden.CREATE_TIME,
            dropped=frozenset({100, 101, 102}),
            stays_empty=frozenset({100}),
        )

        assert data == golden.EMPTIED

    def test_reads_what_it_leaves(self) -> None:
        r0, _, r2 = golden.RECORDS

        assert records_left(golden.CREATE_TIME) == [r0, r2]
        assert records_left(golden.COMPACTED) == [r0, r2]


class TestBatch:
    @pytest.mark.parametrize("codec", list(Codec))
    def test_stays_byte_for_byte_when_all_its_records_do(self, codec: Codec) -> None:
        records = [Record(7, T0, b"k", b"v"), Record(9, T0 + 1, b"l", b"w")]
        data = bytes(Log(compressed(made(records, 9, int(codec)), codec)).fix_crc().data)

        assert left(data) == data
        assert left(data, dropped=frozenset({6, 8, 10})) == data

    @pytest.mark.parametrize("codec", list(Codec))
    def test_keeps_codec_offsets_times_and_headers(self, codec: Codec) -> None:
        records = [
            Record(offset, T0 - offset, b"k", b"v" * 50, (("h", None), ("h", b"")))
            for offset in (10, 14, 19)
        ]
        data = compressed(made(records, 30, int(codec)), codec)
        found = left(data, dropped=frozenset({10}))
        (batch,) = naive.opened(found)

        assert records_left(data, dropped=frozenset({10})) == records[1:]
        assert batch.header.attributes == codec
        assert (batch.header.base, batch.header.last_delta) == (10, 20)
        assert batch.header.max_time == T0 - 14

    def test_keeps_the_time_of_the_append(self) -> None:
        r0, _, r2 = golden.RECORDS
        found = left(golden.LOG_APPEND_TIME)
        (batch,) = naive.opened(found)

        assert [(one.offset, one.timestamp) for one in Log(found).read()] == [
            (r0.offset, golden.APPEND_TIME),
            (r2.offset, golden.APPEND_TIME),
        ]
        assert (batch.header.max_time, batch.header.base_time) == (golden.APPEND_TIME, NOW + DAY_MS)

    def test_keeps_its_producer(self) -> None:
        (before,), (after,) = (
            naive.opened(golden.TRANSACTIONAL),
            naive.opened(left(golden.TRANSACTIONAL)),
        )

        assert after.header.num_records == 2
        for name in ("producer", "producer_epoch", "sequence", "epoch", "last_delta"):
            assert getattr(after.header, name) == getattr(before.header, name)

    def test_goes_with_its_last_record(self) -> None:
        found = retained(
            golden.CREATE_TIME, naive.Rules(dropped=frozenset({100, 101, 102}), now_ms=NOW)
        )

        assert (len(found.data), len(found.batches)) == (0, 0)
        assert (found.min_timestamp, found.delete_horizon_ms) == (None, None)

    def test_an_emptied_one_stays_only_where_it_must(self) -> None:
        assert left(golden.EMPTIED) == b""
        assert left(golden.EMPTIED, stays_empty=frozenset({100})) == golden.EMPTIED

    def test_an_aborted_one_goes(self) -> None:
        assert left(golden.TRANSACTIONAL, aborted=frozenset({100})) == b""

    def test_a_marker_stays_as_it_is(self) -> None:
        everything = frozenset({200})

        data = left(golden.COMMIT_MARKER, dropped=everything, aborted=everything)
        assert data == golden.COMMIT_MARKER

    def test_rules_are_those_of_each_batch(self) -> None:
        data = b"".join(
            made([Record(at, T0, b"k", None), Record(at + 1, T0, None, b"v")], at + 1)
            for at in (0, 2, 4)
        )
        data += placed(6, golden.COMMIT_MARKER)[0]
        two = frozenset({2})
        rules = naive.Rules(frozenset({4}), aborted=two, stays_empty=two, now_ms=NOW)

        assert list(naive.opened(retained(data, rules).data.tobytes())) == naive.retain(data, rules)

    def test_no_batches_leave_none(self) -> None:
        assert left(b"") == b""


class TestTombstone:
    """The batch of COMPACTED has its delete horizon."""

    @pytest.mark.parametrize(
        ("now_ms", "count"),
        [
            (golden.DELETE_HORIZON - 1, 2),
            (golden.DELETE_HORIZON, 1),
            (golden.DELETE_HORIZON + 1, 1),
        ],
    )
    def test_goes_when_its_time_has_come(self, now_ms: int, count: int) -> None:
        assert (
            records_left(golden.COMPACTED, now_ms=now_ms)
            == [
                golden.RECORDS[0],
                golden.RECORDS[2],
            ][:count]
        )

    def test_keeps_its_horizon_when_others_go(self) -> None:
        found = retained(golden.COMPACTED, naive.Rules(dropped=frozenset({100}), now_ms=NOW + 1))
        (batch,) = naive.opened(found.data.tobytes())

        assert found.delete_horizon_ms == batch.header.base_time == golden.DELETE_HORIZON

    def test_gone_leaves_no_horizon_to_wait_for(self) -> None:
        found = retained(golden.COMPACTED, naive.Rules(now_ms=golden.DELETE_HORIZON))

        assert found.delete_horizon_ms is None

    def test_that_is_superseded_needs_no_horizon(self) -> None:
        (batch,) = naive.opened(left(golden.CREATE_TIME, dropped=frozenset({102})))

        assert batch.header.attributes & naive.HAS_HORIZON == 0

    @pytest.mark.parametrize("time", [-1, 0, 2**63 - 1])
    def test_keeps_its_own_time_however_far_from_its_horizon(self, time: int) -> None:
        records = [Record(5, time, b"k", None), Record(6, time, b"l", b"x" * 200)]

        assert records_left(made(records, 6)) == records

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    def test_gets_no_horizon_with_which_readers_would_not_decompress_it(
        self, codec: Codec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.record.retain.BATCH_BYTES_MAX", 2248)
        records = [Record(5, T0, b"k", None), Record(6, T0, b"l", bytes(2200))]
        rules = naive.Rules(now_ms=NOW, delete_retention_ms=FOR_EVER)
        data = compressed(made(records, 6, int(codec)), codec)
        found = retained(data, rules)
        assert found.delete_horizon_ms == FOR_EVER
        assert decode(found.data, found.batches, max_bytes=2248).num_rows == 2

        monkeypatch.setattr("sparklog.record.retain.BATCH_BYTES_MAX", 2247)
        found = retained(data, rules)
        assert Log(found.data.tobytes()).read() == records
        assert found.delete_horizon_ms == (FOR_EVER if codec == Codec.NONE else None)

    @pytest.mark.parametrize("retention_ms", [FOR_EVER - NOW, FOR_EVER - NOW + 1, FOR_EVER])
    @pytest.mark.parametrize("time", [-(2**63), -1, NOW, FOR_EVER])
    def test_stays_for_ever(self, time: int, retention_ms: int) -> None:
        records = [Record(5, time, b"k", None), Record(6, time, b"l", b"v")]
        rules = naive.Rules(now_ms=NOW, delete_retention_ms=retention_ms)
        found = retained(made(records, 6), rules)
        again = retained(found.data.tobytes(), replace(rules, now_ms=FOR_EVER - 1))

        assert found.delete_horizon_ms == again.delete_horizon_ms == FOR_EVER
        assert Log(again.data.tobytes()).read() == records


class TestParts:
    @pytest.fixture(autouse=True)
    def little_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.record.retain.BATCH_BYTES_MAX", 1000)

    @staticmethod
    def of(data: bytes, **rules: Any) -> Iterator[Retained]:
        given = partial(ours, naive.Rules(**{"now_ms": NOW} | rules))
        return retain_in_parts(data, scan_batches(data).batches, given, shift=5)

    @staticmethod
    def log(size: int, codec: Codec) -> bytes:
        """Eight batches, each with a record whose value has so many bytes."""
        batches = (made([Record(at, T0, b"k", bytes(size))], at, int(codec)) for at in range(8))
        return b"".join(compressed(one, codec) for one in batches)

    @pytest.mark.parametrize(
        ("size", "codec", "counts"),
        [
            (100, Codec.ZSTD, [7]),
            (200, Codec.ZSTD, [4, 3]),
            (900, Codec.ZSTD, [1, 1, 1, 1, 1, 0, 1, 1]),
            (900, Codec.NONE, [7]),
        ],
    )
    def test_are_no_larger_than_memory(self, size: int, codec: Codec, counts: list[int]) -> None:
        data = self.log(size, codec)
        parts = list(self.of(data, dropped=frozenset({5})))

        assert [len(part.batches) for part in parts] == counts
        assert b"".join(part.data.tobytes() for part in parts) == left(
            data, shift=5, dropped=frozenset({5})
        )

    def test_come_before_the_damage(self) -> None:
        sound = self.log(200, Codec.ZSTD)
        parts = self.of(sound + raw_batch(b"\x0e" + bytes(6), 1, base=8))
        found: list[Retained] = []

        with pytest.raises(CorruptRecordError, match="record 1 of 1: its length") as caught:
            found.extend(parts)
        assert (caught.value.position, caught.value.offset) == (len(sound), 8)
        assert sum(len(part.batches) for part in found) == 8


# --- damage --------------------------------------------------------------------------------------


class TestDamage:
    @pytest.mark.parametrize("mask", [0x01, 0x7F, 0x80, 0xFF])
    @pytest.mark.parametrize(
        "data", [golden.CREATE_TIME, golden.COMPACTED], ids=["plain", "compacted"]
    )
    def test_in_any_byte_is_found_or_harmless(self, data: bytes, mask: int) -> None:
        """Without a look at the checksum: what the naive filter makes of the same bytes."""
        rules = naive.Rules(frozenset({100}), now_ms=NOW, delete_retention_ms=DAY_MS)
        for position in range(61, len(data)):
            damaged = bytes(Log(data).flip_byte(position, mask).data)
            try:
                expected = naive.retain(damaged, rules)
            except MalformedError as error:
                if error.args == ("header key",):
                    continue  # no text: handed on as it is
                with pytest.raises(CorruptRecordError) as caught:
                    retained(damaged, rules)
                assert (caught.value.position, caught.value.offset) == (0, 100)
            else:
                assert list(naive.opened(left(damaged, dropped=rules.dropped))) == expected

    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
    def test_of_a_compressed_stream_is_found(self, codec: Codec) -> None:
        data = compressed(made([Record(0, T0, b"k", b"v" * 99)], 0, int(codec)), codec)

        with pytest.raises(CorruptRecordError):
            left(bytes(Log(data).shrink(4).put(8, (len(data) - 16).to_bytes(4, "big")).data))

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"", "1 records cannot be in 0 bytes"),
            (b"\x0e" + bytes(6), "record 1 of 1: its length is damaged"),
            (b"\x00" + bytes(7), "record 1 of 1: its length is damaged"),
            (b"\x80" * 8, "record 1 of 1: its length is damaged"),
            (raw_record(bytes(5) + b"\0\0"), "record 1 of 1: bytes are left between"),
            (raw_record(b"\0\0\x02\x01\x01\0"), "record 1 of 1: its offset lies outside"),
            (raw_record(b"\0\0\x01\x01\x01\0"), "record 1 of 1: its offset lies outside"),
            (raw_record(b"\0\0\0\x7f\x01\0"), "record 1 of 1: a key or value does not fit"),
            (raw_record(b"\0\0\0\x01\x01\0") + b"x", "bytes are left after the last record"),
        ],
    )
    def test_says_what_and_where(self, body: bytes, reason: str) -> None:
        sound = made([Record(3, T0, b"k", b"v")], 3)
        data = sound + raw_batch(body, 1, base=4)

        with pytest.raises(CorruptRecordError, match=reason) as caught:
            left(data)
        assert (caught.value.position, caught.value.offset) == (len(sound), 4)

    def test_of_the_text_of_a_header_is_for_its_reader_to_find(self) -> None:
        sound = raw_record(b"\0\0\0\x02k\x02v\x02\x02\xff\x01")
        data = raw_batch(sound + raw_record(b"\0\0\x02\x02l\x02v\0"), 2)
        (batch,) = naive.opened(left(data, dropped=frozenset({1})))

        assert batch.body == sound

    @pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
    def test_of_the_count_asks_for_no_memory(self, count: int) -> None:
        body = raw_record(b"\0\0\0\x01\x01\0")

        with pytest.raises(CorruptRecordError, match=f"{count} records cannot be in 7 bytes"):
            left(raw_batch(body, count, last_delta=2))
