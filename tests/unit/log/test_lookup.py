from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptIndexError, CorruptRecordError
from sparklog.log import lookup, offset_index, time_index
from sparklog.log.lookup import SegmentData
from sparklog.log.offset_index import OffsetIndex
from sparklog.log.recovery import recover
from sparklog.log.time_index import TimeIndex
from sparklog.model import UNKNOWN_OFFSET, TimestampOffset
from sparklog.record.scan import scan_batches
from tests.log_language import emptied, flip_byte, log_of
from tests.naive import log as naive
from tests.naive.log import Record

FOUR = ((100, 110, 105), (90, 95), (110, 110), (200,))
"""The single file of four batches whose answers Kafka 4.1.1 gave."""


def segment_of(
    data: bytes | bytearray, base: int = 0, shift: int = 0, window_bytes: int = 64
) -> SegmentData:
    """A segment with indexes that name every batch but the first."""
    view = memoryview(bytes(data))
    indexes = recover(view, base, 0).indexes
    return SegmentData(
        read=lambda position, length: view[position : position + length],
        log_bytes=len(view),
        shift=shift,
        offset_index=OffsetIndex(indexes.offset_index, base),
        time_index=TimeIndex(indexes.time_index, base),
        window_bytes=window_bytes,
    )


def reading(segment: SegmentData, data: bytes | bytearray) -> SegmentData:
    """The segment with other bytes on disk."""
    return replace(segment, read=lambda position, length: data[position : position + length])


def without_indexes(segment: SegmentData) -> SegmentData:
    return replace(segment, offset_index=None, time_index=None)


def records_of(batches: Sequence[Sequence[int]], base: int = 0) -> list[Record]:
    times = [time for batch in batches for time in batch]
    return [Record(base + slot, time) for slot, time in enumerate(times)]


any_batches = st.lists(
    st.lists(st.integers(-1, 12) | st.integers(0, 2**62), min_size=1, max_size=4), max_size=12
)


class TestBatchPosition:
    POSITIONS = (*scan_batches(log_of(*FOUR)).batches.position.tolist(), len(log_of(*FOUR)))

    @pytest.mark.parametrize("indexed", (True, False))
    @pytest.mark.parametrize(
        ("offset", "slot"), ((0, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 3), (8, 4), (99, 4))
    )
    def test_is_that_of_the_batch_that_holds_it(
        self, offset: int, slot: int, indexed: bool
    ) -> None:
        segment = segment_of(log_of(*FOUR), shift=1000)
        segment = segment if indexed else without_indexes(segment)

        assert lookup.batch_position(segment, 1000 + offset) == self.POSITIONS[slot]

    def test_in_a_gap_is_that_of_the_next_batch(self) -> None:
        data = log_of((1,), base=0) + log_of((2,), base=9)

        assert lookup.batch_position(segment_of(data), 5) == len(log_of((1,)))

    def test_in_an_empty_segment_is_its_end(self) -> None:
        assert lookup.batch_position(segment_of(b""), 5) == 0

    def test_reads_little_of_a_large_file(self) -> None:
        data = bytes(log_of(*[[n] for n in range(500)], value=b"v" * 1000))
        taken = []

        def read(position: int, length: int) -> bytes:
            taken.append(length)
            return data[position : position + length]

        segment = replace(segment_of(data), read=read, window_bytes=lookup.WINDOW_BYTES)

        assert data[lookup.batch_position(segment, 400) + 7] == 400 % 256
        assert taken == [lookup.WINDOW_BYTES]


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

    @example(batches=[[5], [2**62]], timestamp=6, start=0, base=2**62, window=1)
    @given(
        any_batches,
        st.integers(0, 14) | st.integers(0, 2**62),
        st.integers(0, 50),
        st.sampled_from((0, 7, 2**62)),
        st.sampled_from((1, 100, 200, 2**20)),
    )
    def test_agrees_with_a_look_at_every_record(
        self, batches: list[list[int]], timestamp: int, start: int, base: int, window: int
    ) -> None:
        """Goal: shortcuts are exact. Method: any batches, with and without indexes, any window."""
        segment = segment_of(log_of(*batches, base=base), base, shift=70, window_bytes=window)
        records = records_of(batches, base + 70)
        wanted = naive.first_at_or_after(records, timestamp, base + 70 + start)

        for one in (segment, without_indexes(segment), replace(segment, time_index=None)):
            assert lookup.first_at_or_after(one, timestamp, base + 70 + start) == wanted


class TestNewest:
    def test_is_the_first_record_with_the_largest_timestamp(self) -> None:
        segment = segment_of(log_of(*FOUR, [150, 200]))

        assert lookup.newest(segment, 0) == TimestampOffset(200, 7)

    def test_opens_no_other_batch_than_the_hint_names(self) -> None:
        damaged = reading(segment_of(log_of(*FOUR)), flip_byte(log_of(*FOUR), 70))

        assert lookup.newest(damaged, 0, TimestampOffset(200, 7)) == TimestampOffset(200, 7)

    @pytest.mark.parametrize("hint", (TimestampOffset(200, 2), None))
    def test_passes_over_records_below_the_start(self, hint: TimestampOffset | None) -> None:
        segment = segment_of(log_of((7, 200, 9), (8, 8), (3,)))

        assert lookup.newest(segment, 2, hint) == TimestampOffset(9, 2)
        assert lookup.newest(segment, 3, hint) == TimestampOffset(8, 3)
        assert lookup.newest(segment, 5, hint) == TimestampOffset(3, 5)
        assert lookup.newest(segment, 6, hint) == UNKNOWN_OFFSET

    def test_looks_itself_when_the_hint_names_nothing(self) -> None:
        segment = segment_of(log_of(*FOUR))

        assert lookup.newest(segment, 0, TimestampOffset(999, 7)) == TimestampOffset(200, 7)
        assert lookup.newest(segment, 0, TimestampOffset(999, 99)) == TimestampOffset(200, 7)

    def test_passes_over_batches_that_compaction_has_emptied(self) -> None:
        data = log_of((5, 6)) + emptied(bytes(log_of((9,), base=2))) + log_of((7,), base=3)

        assert lookup.newest(segment_of(data), 0) == TimestampOffset(7, 3)

    def test_is_unknown_without_timestamps(self) -> None:
        assert lookup.newest(segment_of(log_of((-1, -1), (-1,))), 0) == UNKNOWN_OFFSET
        assert lookup.newest(segment_of(b""), 0) == UNKNOWN_OFFSET

    @given(any_batches, st.integers(0, 50), st.sampled_from((1, 100, 200, 2**20)))
    def test_agrees_with_a_look_at_every_record(
        self, batches: list[list[int]], start: int, window: int
    ) -> None:
        """Goal: headers suffice. Method: any batches, any start, with and without the hint."""
        segment = segment_of(log_of(*batches), shift=70, window_bytes=window)
        summary = recover(log_of(*batches), 0).summary
        hint = TimestampOffset(summary.max_timestamp, 70 + summary.max_timestamp_delta)
        records = [r for r in records_of(batches, 70) if r.offset >= 70 + start]

        for one in (segment, without_indexes(segment)):
            assert lookup.newest(one, 70 + start) == naive.newest(records)
            assert lookup.newest(one, 70 + start, hint) == naive.newest(records)


class TestDamagedIndex:
    SEGMENT = segment_of(log_of(*FOUR))
    SECOND = len(log_of(FOUR[0]))

    def with_offset_entry(self, offset: int, position: int) -> SegmentData:
        index = OffsetIndex(offset_index.encode([offset], [position]), 0)
        return replace(self.SEGMENT, offset_index=index)

    @pytest.mark.parametrize(
        ("offset", "position", "problem"),
        (
            (4, SECOND + 1, "no batch begins there"),
            (4, SECOND - 1, "no batch begins there"),
            (4, SEGMENT.log_bytes - 1, "no batch begins there"),
            (3, SECOND, "the batch there ends at offset 4"),
        ),
    )
    def test_an_offset_entry_that_names_no_batch(
        self, offset: int, position: int, problem: str
    ) -> None:
        segment = self.with_offset_entry(offset, position)

        with pytest.raises(CorruptIndexError, match=rf"\({offset}, {position}\): {problem}"):
            lookup.batch_position(segment, 7)

    def test_an_entry_for_several_batches_is_sound(self) -> None:
        segment = self.with_offset_entry(6, self.SECOND)

        assert lookup.batch_position(segment, 2) == 0
        assert lookup.batch_position(segment, 7) == len(log_of(*FOUR[:-1]))

    @pytest.mark.parametrize(
        ("entry", "problem"),
        (
            ((109, 2), "ends at offset 2 has the largest timestamp 110"),
            ((105, 5), "ends at offset 6 has the largest timestamp 110"),
            ((105, 99), "its offset lies behind the log"),
        ),
    )
    def test_a_time_entry_that_does_not_fit_its_batch(
        self, entry: tuple[int, int], problem: str
    ) -> None:
        index = TimeIndex(time_index.encode([entry[0]], [entry[1]]), 0)
        segment = replace(self.SEGMENT, time_index=index)

        with pytest.raises(CorruptIndexError, match=problem):
            lookup.first_at_or_after(segment, 201, 0)


class TestDamagedLog:
    def test_a_checksum_is_said_with_position_and_offset_in_the_log(self) -> None:
        second = len(log_of(FOUR[0]))
        sound = without_indexes(segment_of(log_of(*FOUR), shift=1000))
        damaged = reading(sound, flip_byte(log_of(*FOUR), second + 70))

        with pytest.raises(CorruptRecordError, match="checksum") as caught:
            lookup.first_at_or_after(damaged, 90, 1003)
        assert (caught.value.position, caught.value.offset) == (second, 1003)

    @pytest.mark.parametrize(("left", "problem"), ((60, "truncated"), (0, "the file ends here")))
    def test_a_file_that_was_cut(self, left: int, problem: str) -> None:
        sound = without_indexes(segment_of(log_of(*FOUR)))
        last = sound.log_bytes - len(log_of(FOUR[-1], base=7))

        with pytest.raises(CorruptRecordError, match=problem) as caught:
            lookup.batch_position(reading(sound, log_of(*FOUR)[: last + left]), 7)
        assert caught.value.position == last
