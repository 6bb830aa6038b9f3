"""The accelerator answers as the windows do, or not at all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError
from sparklog.log import fast_lookup, lookup
from sparklog.log.fast_lookup import FoundBatch, find_batch, find_record, first_record
from sparklog.log.windows import BEGINNING, SegmentLog
from sparklog.log_reader.opened import opened
from sparklog.model import UNKNOWN_OFFSET, Codec, OffsetPosition, TimestampOffset
from sparklog.record.batches import byte_view
from sparklog.record.layout import RECORDS
from sparklog.record.scan import unpack_header
from tests import golden
from tests.damage import Log, raw_batch, raw_record
from tests.log_language import emptied, log_of
from tests.naive.decode import read_log
from tests.naive.encode import varint
from tests.partitions import DIRECTORY, Partition, batch, marker, message_set, partitions

ANY_TIME = -(2**63)
FOUR = bytes(log_of((100, 110, 105), (90, 95), (110, 110), (200,)))
STARTS = (0, *(len(log_of(*times)) for times in (((1, 2, 3),), ((1, 2, 3), (1, 2)))))
BOUNDS = (-1, 0, 8)
SOUND = raw_record(b"\0\0\0" + varint(-1) * 2 + varint(0))


def segment_of(partition: Partition, slot: int = 0) -> SegmentLog:
    return opened(partition.files, DIRECTORY, partition.segments[slot])


def record_at(segment: SegmentLog, offset: int) -> TimestampOffset | None:
    """The record that the accelerator finds at an offset of the file."""
    floor = lookup.floor_of(segment, offset)
    found = find_record(segment, floor, TimestampOffset(ANY_TIME, offset))
    return found and found.record


def found(
    data: bytes,
    wanted: tuple[int, int],
    bounds: tuple[int, int, int] = BOUNDS,
    named: tuple[int, int] = fast_lookup.NOT_NAMED,
) -> int | None:
    """The base offset of the batch."""
    view = byte_view(data)
    at = find_batch(view, bounds, TimestampOffset(*wanted), TimestampOffset(*named))
    return None if at is None else unpack_header(view, at).base_offset


def first(data: bytes, wanted: tuple[int, int] = (ANY_TIME, 0)) -> TimestampOffset:
    """The first record of the only batch."""
    view = byte_view(data)
    return first_record(view, 0, unpack_header(view, 0), TimestampOffset(*wanted))


class TestFindRecord:
    def test_tells_the_record_its_batch_and_where_that_lies(self) -> None:
        partition = Partition().append(batch(9)).append(batch(1, 5), batch(2, 7))
        segment = segment_of(partition, slot=1)
        floor = lookup.floor_of(segment, 3)
        size = segment.entry.log_bytes - floor.position

        assert find_record(segment, floor, TimestampOffset(6, 0)) == FoundBatch(
            segment.entry, floor, floor.position, size, 3, 4, 4, 7
        )

    def test_spares_a_lookup_the_windows_where_all_is_right(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lookup, "windows", pytest.fail)
        partition = Partition().append(*(batch(time, time + 1) for time in range(9)))
        times = [partition.reader.list_offset(0, time) for time in (-3, *range(10))]

        assert times == [partition.expected_offset(time) for time in (-3, *range(10))]

    @pytest.mark.parametrize(
        "pieces",
        (
            (marker(),),
            (message_set(1, magic=1),),
            (5, batch(1)),
        ),
    )
    def test_leaves_to_the_windows_what_is_not_plain(self, pieces: Any) -> None:
        segment = segment_of(Partition().append(*pieces))

        assert record_at(segment, 0) is None

    def test_does_not_go_beyond_one_read(self) -> None:
        segment = segment_of(Partition().append(batch(1), batch(2), interval=None))
        size = segment.entry.log_bytes // 2

        assert record_at(replace(segment, lookup_bytes=2 * size), 1) == TimestampOffset(2, 1)
        assert record_at(replace(segment, lookup_bytes=2 * size - 1), 1) is None

    def test_leaves_damage_to_the_windows(self) -> None:
        partition = Partition().append(batch(1), batch(2))
        partition.flip_byte(partition.path(), 70)

        assert record_at(segment_of(partition), 0) is None

    def test_leaves_a_damaged_record_to_the_windows(self) -> None:
        partition = Partition().append(batch(1))
        damaged = Log(partition.bytes_of(partition.path())).flip_byte(RECORDS).fix_crc()
        partition.put(partition.path(), bytes(damaged.data))

        assert record_at(segment_of(partition), 0) is None

    def test_leaves_an_entry_that_does_not_fit_to_the_windows(self) -> None:
        segment = segment_of(Partition().append(batch(1), batch(2)))
        floor = lookup.floor_of(segment, 1)
        wanted = TimestampOffset(ANY_TIME, 1)

        assert find_record(segment, floor, wanted) is not None
        assert find_record(segment, OffsetPosition(0, floor.position), wanted) is None

    @given(partitions(), st.data())
    def test_answers_rightly_or_not_at_all(self, partition: Partition, data: st.DataObject) -> None:
        """Goal: never another answer. Method: any segments, damaged or not, any record."""
        assume(partition.records)
        path = partition.path(slot=data.draw(st.integers(0, len(partition.segments) - 1)))
        position = data.draw(st.integers(0, len(partition.bytes_of(path)) - 1))
        partition.flip_byte(path, position, data.draw(st.sampled_from((0, 0x01, 0xFF))))
        record = data.draw(st.sampled_from(partition.records))
        slot = partition.image.segments(0).first_ending_after(record.offset)
        assert slot is not None
        segment = segment_of(partition, slot)
        wanted = TimestampOffset(ANY_TIME, record.offset - segment.entry.shift)

        found = find_record(segment, BEGINNING, wanted)

        assert found is None or found.record == (record.timestamp, record.offset)


class TestFindBatch:
    @pytest.mark.parametrize(
        ("wanted", "base"),
        (
            ((ANY_TIME, 0), 0),
            ((ANY_TIME, 3), 3),
            ((ANY_TIME, 7), 7),
            ((95, 0), 0),
            ((95, 3), 3),
            ((96, 3), 5),
            ((111, 0), 7),
            ((201, 0), None),
            ((ANY_TIME, 8), None),
        ),
    )
    def test_is_the_first_that_may_hold_the_record(
        self, wanted: tuple[int, int], base: int | None
    ) -> None:
        assert found(FOUR, wanted) == base

    def test_says_where_it_lies(self) -> None:
        assert find_batch(byte_view(FOUR), BOUNDS, TimestampOffset(ANY_TIME, 4)) == STARTS[1]

    @pytest.mark.parametrize(
        ("bounds", "base"),
        (
            ((2, 0, 8), 0),
            ((-1, 0, 3), 0),
            ((-1, 0, 2), None),
            ((3, 0, 8), None),
            ((2, 1, 8), None),
            ((-1, 1, 8), None),
        ),
    )
    def test_lies_within_its_bounds(self, bounds: tuple[int, int, int], base: int | None) -> None:
        assert found(FOUR, (ANY_TIME, 0), bounds) == base

    @pytest.mark.parametrize(
        ("named", "base"),
        (
            ((110, 2), 7),
            ((200, 7), 7),
            ((109, 2), None),
            ((95, 4), None),
            ((111, 4), None),
            ((96, 5), None),
        ),
    )
    def test_comes_behind_a_named_batch_that_fits(
        self, named: tuple[int, int], base: int | None
    ) -> None:
        assert found(FOUR, (200, 0), named=named) == base

    @pytest.mark.parametrize("position", (*range(12), *range(16, STARTS[1])))
    def test_is_none_behind_any_damage(self, position: int) -> None:
        damaged = bytes(Log(FOUR).flip_byte(position).data)

        assert found(damaged, (ANY_TIME, 3)) is None

    def test_is_none_behind_a_gap_or_an_older_format(self) -> None:
        gap = bytes(log_of((1,)) + log_of((2,), base=3))

        assert found(gap, (2, 0)) is None
        assert found(message_set(1, 2, magic=1)(0), (ANY_TIME, 0)) is None

    def test_is_none_where_the_batch_is_cut(self) -> None:
        for count in range(STARTS[1]):
            assert found(FOUR[:count], (ANY_TIME, 0)) is None

    def test_is_none_behind_too_many_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fast_lookup, "BATCHES_MAX", 3)

        assert [found(FOUR, (ANY_TIME, offset)) for offset in (6, 7)] == [5, None]


class TestFirstRecord:
    @example(times=[5, 2**62], wanted=(6, 0), codec=0, append_time=None)
    @given(
        st.lists(st.integers(-1, 12) | st.integers(0, 2**62), min_size=1, max_size=5),
        st.tuples(st.integers(-1, 13) | st.integers(0, 2**62), st.integers(0, 6)),
        st.integers(0, 4),
        st.none() | st.integers(0, 12),
    )
    def test_agrees_with_a_look_at_every_record(
        self, times: Sequence[int], wanted: tuple[int, int], codec: int, append_time: int | None
    ) -> None:
        """Goal: the first of them. Method: any times and codec, both timestamp types."""
        data = batch(*times, codec=Codec(codec), append_time=append_time)(0)
        records = [(one.timestamp, one.offset) for one in read_log(data)]
        answers = [one for one in records if one[0] >= wanted[0] and one[1] >= wanted[1]]

        assert first(data, wanted) == (answers or [UNKNOWN_OFFSET])[0]

    def test_is_none_in_a_marker_and_in_an_emptied_batch(self) -> None:
        assert first(golden.COMMIT_MARKER) == UNKNOWN_OFFSET
        assert first(emptied(bytes(log_of((9,))))) == UNKNOWN_OFFSET

    @pytest.mark.parametrize(
        ("data", "problem"),
        (
            (raw_batch(SOUND, -1), "-1 records"),
            (raw_batch(SOUND, 0), "bytes are left after"),
            (raw_batch(SOUND, 2), "its length is damaged"),
            (raw_batch(SOUND[:-1] + b"\1", 1), "the header count"),
            (raw_batch(SOUND, 1, attributes=1), "damaged gzip"),
            (raw_batch(SOUND, 1, attributes=7), "codec bits 7"),
        ),
    )
    def test_is_an_error_in_a_damaged_batch(self, data: bytes, problem: str) -> None:
        with pytest.raises(CorruptRecordError, match=problem):
            first(data)
