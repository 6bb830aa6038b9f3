from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptIndexError, CorruptRecordError
from sparklog.log import lookup, offset_index, time_index
from sparklog.log.offset_index import OffsetIndex
from sparklog.log.time_index import TimeIndex
from sparklog.log.windows import BEGINNING, LOOKUP_BYTES, SegmentLog
from sparklog.model import UNKNOWN_OFFSET, TimestampOffset
from sparklog.record.scan import scan_batches
from tests.damage import Log
from tests.log_language import built, emptied, flip_byte, log_of
from tests.naive import log as naive
from tests.naive.log import Record

FOUR = ((100, 110, 105), (90, 95), (110, 110), (200,))
"""The single file of four batches whose answers Kafka 4.1.1 gave."""


def segment_of(
    data: bytes | bytearray, base: int = 0, shift: int = 0, lookup_bytes: int = 64
) -> SegmentLog:
    """A segment with indexes that name every batch but the first."""
    summary, indexes = built(data, base, 0)
    entry = summary.entry(base + shift, 0, "t-0/a.log")
    return SegmentLog(
        entry=entry,
        read=reader_of(data),
        offset_index=lambda: OffsetIndex(indexes.offset_index, base),
        time_index=lambda: TimeIndex(indexes.time_index, base),
        lookup_bytes=lookup_bytes,
    )


def reader_of(data: bytes | bytearray) -> Callable[[int, int], bytes]:
    return lambda position, length: bytes(data[position : position + length])


def without_indexes(segment: SegmentLog) -> SegmentLog:
    return replace(segment, offset_index=lambda: None, time_index=lambda: None)


def records_of(batches: Sequence[Sequence[int]], base: int = 0) -> list[Record]:
    times = [time for batch in batches for time in batch]
    return [Record(base + slot, time) for slot, time in enumerate(times)]


any_batches = st.lists(
    st.lists(st.integers(-1, 12) | st.integers(0, 2**62), min_size=1, max_size=4), max_size=12
)


class TestCheckedFloor:
    POSITIONS = (0, *scan_batches(log_of(*FOUR)).batches.position.tolist())

    @pytest.mark.parametrize(
        ("offset", "slot"), ((0, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (7, 4), (8, 4))
    )
    def test_is_the_entry_at_or_before_an_offset(self, offset: int, slot: int) -> None:
        segment = segment_of(log_of(*FOUR), shift=1000)

        assert lookup.checked_floor(segment, 1000 + offset).position == self.POSITIONS[slot]
        assert lookup.checked_floor(without_indexes(segment), 1000 + offset) == BEGINNING

    def test_does_not_open_the_index_for_the_first_offset(self) -> None:
        segment = replace(segment_of(log_of(*FOUR), shift=1000), offset_index=pytest.fail)

        assert lookup.checked_floor(segment, 1000) == BEGINNING

    def test_reads_little_of_a_large_file(self) -> None:
        data = bytes(log_of(*[[n] for n in range(500)], value=b"v" * 1000))
        taken = []

        def read(position: int, length: int) -> bytes:
            taken.append(length)
            return data[position : position + length]

        segment = replace(segment_of(data, lookup_bytes=LOOKUP_BYTES), read=read)

        assert data[lookup.checked_floor(segment, 400).position + 7] == 400 % 256
        assert taken == [LOOKUP_BYTES]


class TestFirstAtOrAfter:
    @pytest.mark.parametrize(
        ("timestamp", "offset"),
        ((420, 42), (421, 43), (430, 43), (431, 44), (401, 41), (399, 40), (0, 40)),
    )
    def test_answers_as_kafkas_own_test(self, timestamp: int, offset: int) -> None:
        """Goal: Kafka's semantics. Method: LogSegmentTest.testFindOffsetByTimestamp."""
        segment = segment_of(log_of(*[[10 * n] for n in range(40, 50)], base=40), base=40)

        found = lookup.first_at_or_after(segment, timestamp, 40)

        assert found == TimestampOffset(10 * offset, offset)
        assert lookup.first_at_or_after(segment, 491, 40) == UNKNOWN_OFFSET

    @pytest.mark.parametrize("indexed", (True, False))
    @pytest.mark.parametrize(
        ("timestamps", "start", "found"),
        (
            ((0, 95, 100), 0, (100, 0)),
            ((101, 110), 0, (110, 1)),
            ((111, 200), 0, (200, 7)),
            ((0, 95), 4, (95, 4)),
            ((96, 100, 110), 4, (110, 5)),
            ((111,), 4, (200, 7)),
            ((201,), 0, (-1, -1)),
            ((106,), 2, (110, 5)),
            ((0,), 8, (-1, -1)),
        ),
    )
    def test_answers_as_a_broker(
        self, timestamps: Sequence[int], start: int, found: tuple[int, int], indexed: bool
    ) -> None:
        segment = segment_of(log_of(*FOUR))
        segment = segment if indexed else without_indexes(segment)

        for timestamp in timestamps:
            assert lookup.first_at_or_after(segment, timestamp, start) == TimestampOffset(*found)

    def test_counts_a_control_record(self) -> None:
        data = log_of((5,)) + log_of((9,), base=1, attributes=0x20)

        assert lookup.first_at_or_after(segment_of(data), 6, 0) == TimestampOffset(9, 1)
        assert lookup.first_at_or_after(segment_of(data), 6, 2) == UNKNOWN_OFFSET

    @example(batches=[[5], [2**62]], timestamp=6, start=0, base=2**62, lookup_bytes=1)
    @given(
        any_batches,
        st.integers(0, 14) | st.integers(0, 2**62),
        st.integers(0, 50),
        st.sampled_from((0, 7, 2**62)),
        st.sampled_from((1, 100, 200, 2**20)),
    )
    def test_agrees_with_a_look_at_every_record(
        self, batches: list[list[int]], timestamp: int, start: int, base: int, lookup_bytes: int
    ) -> None:
        """Goal: shortcuts are exact. Method: any batches, with and without indexes, any window."""
        segment = segment_of(log_of(*batches, base=base), base, shift=70, lookup_bytes=lookup_bytes)
        records = records_of(batches, base + 70)
        wanted = naive.first_at_or_after(records, timestamp, base + 70 + start)

        for one in (segment, without_indexes(segment), replace(segment, time_index=lambda: None)):
            assert lookup.first_at_or_after(one, timestamp, base + 70 + start) == wanted


class TestNewest:
    def test_is_the_first_record_with_the_largest_timestamp(self) -> None:
        segment = segment_of(log_of(*FOUR, [150, 200]))

        assert lookup.newest(segment, 0) == TimestampOffset(200, 7)

    def test_opens_no_other_batch_than_the_manifest_names(self) -> None:
        segment = segment_of(log_of(*FOUR))
        damaged = replace(segment, read=reader_of(flip_byte(log_of(*FOUR), 70)))

        assert lookup.newest(damaged, 0) == TimestampOffset(200, 7)

    def test_passes_over_records_below_the_start(self) -> None:
        segment = segment_of(log_of((7, 200, 9), (8, 8), (3,)))

        assert lookup.newest(segment, 2) == TimestampOffset(9, 2)
        assert lookup.newest(segment, 3) == TimestampOffset(8, 3)
        assert lookup.newest(segment, 5) == TimestampOffset(3, 5)
        assert lookup.newest(segment, 6) == UNKNOWN_OFFSET

    @pytest.mark.parametrize(
        ("end", "found"),
        [(1, (7, 0)), (2, (200, 1)), (4, (200, 1)), (9, (300, 5)), (None, (300, 5))],
    )
    def test_passes_over_records_from_the_end_on(
        self, end: int | None, found: tuple[int, int]
    ) -> None:
        """Goal: a past log ends within a segment. Method: ends within and between batches."""
        segment = segment_of(log_of((7, 200, 9), (8, 8), (300,), (4,)))

        assert lookup.newest(segment, 0, end) == TimestampOffset(*found)

    def test_passes_over_batches_that_compaction_has_emptied(self) -> None:
        data = log_of((5, 6)) + emptied(bytes(log_of((9,), base=2))) + log_of((7,), base=3)

        assert lookup.newest(segment_of(data), 0) == TimestampOffset(7, 3)

    def test_is_unknown_without_timestamps(self) -> None:
        assert lookup.newest(segment_of(log_of((-1, -1), (-1,))), 0) == UNKNOWN_OFFSET
        assert lookup.newest(segment_of(b""), 0) == UNKNOWN_OFFSET

    @given(any_batches, st.integers(0, 50), st.sampled_from((1, 100, 200, 2**20)))
    def test_agrees_with_a_look_at_every_record(
        self, batches: list[list[int]], start: int, lookup_bytes: int
    ) -> None:
        """Goal: headers suffice. Method: any batches, any start, with and without indexes."""
        segment = segment_of(log_of(*batches), shift=70, lookup_bytes=lookup_bytes)
        records = [r for r in records_of(batches, 70) if r.offset >= 70 + start]

        for one in (segment, without_indexes(segment)):
            assert lookup.newest(one, 70 + start) == naive.newest(records)


class TestDamagedIndex:
    SEGMENT = segment_of(log_of(*FOUR))
    SECOND = len(log_of(FOUR[0]))

    def with_offset_entries(self, *entries: tuple[int, int]) -> SegmentLog:
        index = OffsetIndex(offset_index.encode(*zip(*entries, strict=True)), 0)
        return replace(self.SEGMENT, offset_index=lambda: index)

    @pytest.mark.parametrize(
        ("offset", "position", "problem"),
        (
            (4, SECOND + 1, "(size|magic) "),
            (4, SECOND - 1, "truncated"),
            (4, SEGMENT.entry.log_bytes - 1, "truncated"),
            (3, SECOND, "no such batch begins there"),
            (4, SEGMENT.entry.log_bytes, "is none of a file of"),
            (4, -SECOND, "is none of a file of"),
            (0, 0, "is none of a file of"),
        ),
    )
    def test_an_offset_entry_that_names_no_batch(
        self, offset: int, position: int, problem: str
    ) -> None:
        segment = self.with_offset_entries((offset, position))

        with pytest.raises(CorruptIndexError, match=rf"\({offset}, {position}\).* {problem}") as e:
            lookup.checked_floor(segment, 7)
        assert vars(e.value)["suffix"] == ".index"

    def test_an_entry_for_several_batches_is_sound(self) -> None:
        segment = replace(self.with_offset_entries((6, self.SECOND)), lookup_bytes=LOOKUP_BYTES)

        assert lookup.checked_floor(segment, 2) == BEGINNING
        assert lookup.checked_floor(segment, 7) == (6, self.SECOND)

    def test_an_entry_for_more_batches_than_are_read_is_sound(self) -> None:
        segment = replace(self.with_offset_entries((7, self.SECOND)), lookup_bytes=200)

        assert lookup.checked_floor(segment, 7) == (7, self.SECOND)

    def test_an_entry_beyond_a_batch_that_is_not_in_its_place_is_not(self) -> None:
        segment = replace(self.with_offset_entries((7, self.SECOND)), lookup_bytes=200)
        damaged = flip_byte(log_of(*FOUR), self.SECOND + 7)

        with pytest.raises(CorruptIndexError, match="no such batch"):
            lookup.checked_floor(replace(segment, read=reader_of(damaged)), 7)

    def test_a_time_entry_is_held_against_the_batches_before_it(self) -> None:
        segment = segment_of(log_of((5,), (9,), (9,), (12,)))
        moved = TimeIndex(time_index.encode([5, 9, 12], [0, 2, 3]), 0)

        with pytest.raises(CorruptIndexError, match="an earlier batch is as late"):
            lookup.first_at_or_after(replace(segment, time_index=lambda: moved), 9, 0)

    @pytest.mark.parametrize(
        ("entries", "timestamp", "problem"),
        (
            (((109, 2), (200, 7)), 150, "the batch there is another"),
            (((111, 5), (200, 7)), 150, "the batch there is another"),
            (((110, 6), (200, 7)), 150, "an earlier batch is as late"),
            (((111, 99), (201, 100)), 150, "an earlier batch is as late"),
            (((201, 99), (203, 100)), 202, "its offset lies behind the segment"),
            (((110, 7), (200, 7)), 150, r"the next is \(200, 7\)"),
            (((110, 2),), 150, r"it is the last, the segment's newest batch is \(200, 7\)"),
            (((200, 8),), 200, r"it is the last, the segment's newest batch is \(200, 7\)"),
        ),
    )
    def test_a_time_entry_that_does_not_fit_its_batch(
        self, entries: Sequence[tuple[int, int]], timestamp: int, problem: str
    ) -> None:
        index = TimeIndex(time_index.encode(*zip(*entries, strict=True)), 0)
        segment = replace(without_indexes(self.SEGMENT), time_index=lambda: index)

        with pytest.raises(CorruptIndexError, match=problem) as caught:
            lookup.first_at_or_after(segment, timestamp, 0)
        assert vars(caught.value)["suffix"] == ".timeindex"


class TestDamagedLog:
    SECOND = len(log_of(FOUR[0]))

    def test_a_checksum_is_said_with_position_and_offset_in_the_log(self) -> None:
        segment = without_indexes(segment_of(log_of(*FOUR), shift=1000))
        damaged = replace(segment, read=reader_of(flip_byte(log_of(*FOUR), self.SECOND + 70)))

        with pytest.raises(CorruptRecordError, match="checksum") as caught:
            lookup.first_at_or_after(damaged, 90, 1003)
        assert (caught.value.position, caught.value.offset) == (self.SECOND, 1003)

    @pytest.mark.parametrize("times", (((1,), (9,), (2,)), ((1,), (9,), (9,))))
    def test_a_batch_that_is_passed_over_is_verified(self, times: Sequence[Sequence[int]]) -> None:
        sound = log_of(*times)
        segment = without_indexes(segment_of(sound, lookup_bytes=4096))
        largest_time = len(log_of((1,))) + 35
        damaged = Log(bytes(sound)).zero(largest_time, largest_time + 8).data

        with pytest.raises(CorruptRecordError, match="checksum"):
            lookup.first_at_or_after(replace(segment, read=reader_of(damaged)), 9, 0)
        found = lookup.first_at_or_after(replace(segment, read=reader_of(damaged)), 1, 0)
        assert found == TimestampOffset(1, 0)
