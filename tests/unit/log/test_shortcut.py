"""The short way answers as the long way does, or not at all."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparklog.log import lookup
from sparklog.log.shortcut import find_record
from sparklog.log.windows import BEGINNING, SegmentLog
from sparklog.log_reader.opened import opened
from sparklog.model import OffsetPosition, TimestampOffset
from sparklog.record.layout import RECORDS
from tests.damage import Log
from tests.partitions import DIRECTORY, Partition, batch, marker, message_set, partitions

ANY_TIME = -(2**63)


def segment_of(partition: Partition, slot: int = 0) -> SegmentLog:
    return opened(partition.files, DIRECTORY, partition.segments[slot])


def record_at(segment: SegmentLog, offset: int) -> TimestampOffset | None:
    """What the short way says of an offset of the file."""
    floor = lookup.floor_of(segment, offset)
    found = find_record(segment, floor, TimestampOffset(ANY_TIME, offset))
    return None if found is None else found[0]


class TestFindRecord:
    def test_tells_the_record_its_batch_and_where_that_lies(self) -> None:
        partition = Partition().append(batch(9)).append(batch(1, 5), batch(2, 7))
        segment = segment_of(partition, slot=1)
        found = find_record(segment, lookup.floor_of(segment, 3), TimestampOffset(6, 0))

        assert found is not None
        record, header, position = found
        assert record == TimestampOffset(7, 3)
        assert (header.base_offset, position) == (2, segment.entry.log_bytes - header.size)

    def test_is_the_way_of_a_lookup_where_all_is_right(
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
    def test_leaves_to_the_long_way_what_is_not_plain(self, pieces: Any) -> None:
        segment = segment_of(Partition().append(*pieces))

        assert record_at(segment, 0) is None

    def test_does_not_go_beyond_one_read(self) -> None:
        segment = segment_of(Partition().append(batch(1), batch(2), interval=None))
        size = segment.entry.log_bytes // 2

        assert record_at(replace(segment, lookup_bytes=2 * size), 1) == TimestampOffset(2, 1)
        assert record_at(replace(segment, lookup_bytes=2 * size - 1), 1) is None

    def test_leaves_damage_to_the_long_way(self) -> None:
        partition = Partition().append(batch(1), batch(2))
        partition.flip_byte(partition.path(), 70)

        assert record_at(segment_of(partition), 0) is None

    def test_leaves_a_damaged_record_to_the_long_way(self) -> None:
        partition = Partition().append(batch(1))
        damaged = Log(partition.bytes_of(partition.path())).flip_byte(RECORDS).fix_crc()
        partition.put(partition.path(), bytes(damaged.data))

        assert record_at(segment_of(partition), 0) is None

    def test_leaves_an_entry_that_does_not_fit_to_the_long_way(self) -> None:
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

        assert found is None or found[0] == wanted._replace(timestamp=record.timestamp)
