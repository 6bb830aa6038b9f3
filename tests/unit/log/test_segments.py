import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparklog.errors import CorruptMetadataError
from sparklog.log.segments import SegmentList
from sparklog.model import SegmentEntry


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


def listed(entries: list[SegmentEntry]) -> SegmentList:
    def numbers(name: str) -> NDArray[np.int64]:
        return np.array([getattr(one, name) for one in entries], np.int64)

    return SegmentList(
        numbers("base_offset"),
        numbers("next_offset"),
        numbers("max_timestamp"),
        numbers("log_bytes"),
        entries.__getitem__,
    )


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


class TestSegmentList:
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
        with pytest.raises(CorruptMetadataError, match=problem):
            listed([entry(*span) for span in spans])


class TestOfAll:
    def test_sums_bytes(self) -> None:
        assert three().total_bytes == 300
        assert listed([]).total_bytes == 0


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
