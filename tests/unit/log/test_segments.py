from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptManifestError
from sparklog.log.segments import SegmentList, segment_entry, segment_row
from sparklog.model import NO_TIMESTAMP, AbortedRange, SegmentEntry

ABORTED = pa.list_(pa.struct([(name, pa.int64()) for name in AbortedRange._fields]))


def entry(base: int, end: int, newest: int = -1, partition: int = 0) -> SegmentEntry:
    return SegmentEntry(
        partition=partition,
        base_offset=base,
        next_offset=end,
        file_base_offset=0,
        log_path=f"{base}.log",
        log_bytes=100,
        max_timestamp=newest,
        created_ms=7,
    )


def as_table(entries: list[SegmentEntry]) -> pa.Table:
    """The columns a commit fills, and one that SegmentEntry does not have."""
    names = ("partition", "base_offset", "next_offset", "file_base_offset", "max_timestamp")
    columns = {name: pa.array([getattr(e, name) for e in entries], pa.int64()) for name in names}
    count = len(entries)
    return pa.table(
        columns
        | {
            "log_path": pa.array([e.log_path for e in entries], pa.string()),
            "log_bytes": pa.array([e.log_bytes for e in entries], pa.int64()),
            "created_ms": pa.array([7] * count, pa.int64()),
            "codec": pa.nulls(count, pa.int32()),
            "producer_ids": pa.array([e.producer_ids for e in entries], pa.list_(pa.int64())),
            "aborted": pa.array([[span._asdict() for span in e.aborted] for e in entries], ABORTED),
            "expires_ms": pa.nulls(count, pa.int64()),
        }
    )


def listed(entries: list[SegmentEntry]) -> SegmentList:
    return SegmentList.from_table(as_table(entries))


def three(newest: tuple[int, int, int] = (100, 300, 200)) -> SegmentList:
    """Offsets [10, 20), a gap, [30, 40), [40, 50)."""
    spans = ((10, 20), (30, 40), (40, 50))
    return listed([entry(base, end, time) for (base, end), time in zip(spans, newest, strict=True)])


@st.composite
def segment_lists(draw: st.DrawFn) -> list[SegmentEntry]:
    steps = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3), st.integers(1, 5), st.integers(-1, 9) | st.integers(0, 2**63 - 1)
            ),
            max_size=30,
        )
    )
    entries, offset = [], draw(st.sampled_from((0, 5, 2**62)))
    for gap, count, newest in steps:
        entries.append(entry(offset + gap, offset + gap + count, newest))
        offset += gap + count
    return entries


class TestFromTable:
    @given(segment_lists(), st.randoms(use_true_random=False))
    def test_gives_the_entries_back_in_order(
        self, entries: list[SegmentEntry], random: Random
    ) -> None:
        """Goal: no row is lost or swapped. Method: shuffled rows against the sorted entries."""
        shuffled = list(entries)
        random.shuffle(shuffled)

        assert list(SegmentList.from_table(as_table(shuffled))) == entries

    def test_reads_lists_as_tuples(self) -> None:
        full = replace(entry(0, 9), producer_ids=(3, 4), aborted=(AbortedRange(3, -2, 5),))

        assert SegmentList.from_table(as_table([full])).entry(0) == full

    @pytest.mark.parametrize("name", ("base_offset", "next_offset", "max_timestamp", "log_bytes"))
    def test_refuses_null_where_a_number_must_be(self, name: str) -> None:
        table = as_table([entry(0, 9)])
        slot = table.column_names.index(name)
        damaged = table.set_column(slot, name, pa.nulls(1, pa.int64()))

        with pytest.raises(CorruptManifestError, match=f"column {name} of a segment's row is null"):
            SegmentList.from_table(damaged)

    @pytest.mark.parametrize(
        ("spans", "problem"),
        (
            (((5, 5),), r"segment of offsets \[5, 5\): segments hold at least one"),
            (((5, 4),), r"segment of offsets \[5, 4\): segments hold at least one"),
            (((0, 9), (8, 12)), r"\[8, 12\) behind one that ends at 9"),
            (((0, 9), (0, 9)), r"\[0, 9\) behind one that ends at 9"),
        ),
    )
    def test_refuses_overlaps(self, spans: tuple[tuple[int, int], ...], problem: str) -> None:
        with pytest.raises(CorruptManifestError, match=problem):
            listed([entry(*span) for span in spans])


class TestRow:
    FULL = replace(
        entry(3, 9, 5), log_position=7, producer_ids=(3, 4), aborted=(AbortedRange(3, -2, 5),)
    )

    @pytest.mark.parametrize("one", (entry(3, 9), FULL))
    def test_gives_the_segment_back(self, one: SegmentEntry) -> None:
        assert segment_entry(segment_row(one)) == one

    def test_takes_defaults_for_columns_that_are_null_or_absent(self) -> None:
        row = segment_row(entry(3, 9)) | {"transactional": None, "max_timestamp": None, "x": 1}
        del row["log_position"]

        assert segment_entry(row) == entry(3, 9)

    def test_must_say_where_the_segment_lies(self) -> None:
        row = segment_row(entry(3, 9)) | {"log_path": None}

        with pytest.raises(CorruptManifestError, match="log_path of a segment's row is null"):
            segment_entry(row)


class TestOfAll:
    def test_sums_bytes_and_knows_the_largest_timestamp(self) -> None:
        assert three().total_bytes == 300
        assert three().largest_timestamp == 300

    def test_of_no_segments_are_none(self) -> None:
        assert listed([]).total_bytes == 0
        assert listed([]).largest_timestamp == NO_TIMESTAMP


class TestByOffset:
    @pytest.mark.parametrize(
        ("offset", "slot"), ((0, 0), (19, 0), (20, 1), (39, 1), (40, 2), (49, 2), (50, None))
    )
    def test_a_read_begins_in_the_first_that_ends_after(
        self, offset: int, slot: int | None
    ) -> None:
        assert three().first_ending_after(offset) == slot

    @pytest.mark.parametrize(
        ("start", "end", "slots"),
        (
            (0, 100, [0, 1, 2]),
            (0, 10, []),
            (19, 30, [0]),
            (19, 31, [0, 1]),
            (20, 30, []),
            (39, 41, [1, 2]),
            (50, 60, []),
            (45, 45, []),
            (45, 15, []),
        ),
    )
    def test_range_is_what_overlaps(self, start: int, end: int, slots: list[int]) -> None:
        assert list(three().range(start, end)) == slots

    def test_an_empty_list_answers_none(self) -> None:
        empty = listed([])

        assert len(empty) == 0
        assert empty.first_ending_after(0) is None
        assert list(empty.range(0, 9)) == []
        assert empty.first_with_timestamp(0) is None


class TestByTimestamp:
    @pytest.mark.parametrize(
        ("timestamp", "slot"), ((0, 0), (100, 0), (101, 1), (200, 1), (300, 1), (301, None))
    )
    def test_is_the_first_that_reaches_the_time(self, timestamp: int, slot: int | None) -> None:
        assert three().first_with_timestamp(timestamp) == slot

    def test_passes_over_segments_below_the_start(self) -> None:
        assert three().first_with_timestamp(50, from_offset=20) == 1
        assert three().first_with_timestamp(150, from_offset=40) == 2
        assert three().first_with_timestamp(250, from_offset=40) is None

    def test_segments_without_timestamps_never_match(self) -> None:
        assert three((-1, 5, -1)).first_with_timestamp(0) == 1
        assert three((-1, -1, -1)).first_with_timestamp(0) is None

    def test_finds_a_match_thousands_of_segments_behind_the_start(self) -> None:
        count = 10_000
        base = np.arange(count, dtype=np.int64)
        newest = np.zeros(count, np.int64)
        newest[[3, 9_876]] = 50
        segments = SegmentList(base, base + 1, newest, base, lambda slot: entry(slot, slot + 1))

        assert segments.first_with_timestamp(50) == 3
        assert segments.first_with_timestamp(50, from_offset=4) == 9_876

    @given(segment_lists(), st.integers(0, 10), st.integers(0, 100))
    def test_agrees_with_a_look_at_every_segment(
        self, entries: list[SegmentEntry], timestamp: int, skipped: int
    ) -> None:
        """Goal: shortcuts are exact. Method: filter the entries for every question."""
        start = (entries[0].base_offset if entries else 0) + skipped
        later = [e for e in entries if e.next_offset > start]
        matches = [e for e in later if e.max_timestamp >= timestamp]
        segments = listed(entries)

        found = segments.first_with_timestamp(timestamp, start)

        assert (None if found is None else segments.entry(found)) == next(iter(matches), None)
