"""Which segments are compacted, and which together; the job: tests/unit/maintenance."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.config import TopicConfig
from sparklog.log.compaction import CompactionPlan, plan_compaction, plan_groups
from sparklog.model import SegmentEntry
from tests.edits import segment
from tests.naive import compaction as naive

NOW = 1_700_000_000_000
DAY_MS = 86_400_000
FOREVER = 2**63 - 1
SPAN = 2**31
DEFAULTS = TopicConfig.parse({})


def policy(ratio: float = 0.5, min_lag_ms: int = 0, max_lag_ms: int = FOREVER) -> TopicConfig:
    return replace(
        DEFAULTS,
        min_cleanable_dirty_ratio=ratio,
        min_compaction_lag_ms=min_lag_ms,
        max_compaction_lag_ms=max_lag_ms,
    )


def log(*sizes: int, span: int = 10, **columns: Any) -> list[SegmentEntry]:
    """Segments of so many bytes each, of `span` offsets, back to back."""
    return [entry(number * span, size, span, **columns) for number, size in enumerate(sizes)]


def entry(base: int, size: int = 1, span: int = 10, **columns: Any) -> SegmentEntry:
    values = {"max_timestamp": NOW, "min_timestamp": NOW, "log_bytes": size} | columns
    return segment(0, base_offset=base, next_offset=base + span, log_path=f"{base}", **values)


def plan(
    segments: Sequence[SegmentEntry], first_dirty: int = 0, **options: Any
) -> CompactionPlan | None:
    force = options.pop("force", False)
    return plan_compaction(segments, first_dirty, policy(**options), NOW, force=force)


def bases(segments: Sequence[SegmentEntry]) -> list[int]:
    return [one.base_offset for one in segments]


class TestPlan:
    def test_leaves_the_newest_segment_alone(self) -> None:
        found = plan(log(1, 1, 1))

        assert found is not None
        assert (bases(found.clean), bases(found.dirty), found.end_offset) == ([], [0, 10], 20)

    @pytest.mark.parametrize("count", [0, 1])
    def test_needs_more_than_the_newest_segment(self, count: int) -> None:
        assert plan(log(*[1] * count), force=True) is None

    def test_begins_at_the_first_dirty_offset(self) -> None:
        found = plan(log(1, 2, 4, 8), first_dirty=20, ratio=0.5)

        assert found is not None
        assert (bases(found.clean), bases(found.dirty)) == ([0, 10], [20])
        assert (found.clean_bytes, found.dirty_bytes, found.dirty_ratio) == (3, 4, 4 / 7)

    def test_takes_a_segment_in_which_the_first_dirty_offset_lies(self) -> None:
        found = plan(log(1, 1, 1), first_dirty=15)

        assert found is None
        forced = plan(log(1, 1, 1), first_dirty=15, force=True)
        assert forced is not None
        assert (bases(forced.clean), bases(forced.dirty)) == ([0], [10])

    def test_ends_at_the_base_of_what_follows(self) -> None:
        """Offsets between two segments count as cleaned."""
        found = plan([entry(0), entry(100)])

        assert found is not None
        assert found.end_offset == 100

    def test_of_a_clean_log_is_none(self) -> None:
        assert plan(log(1, 1, 1), first_dirty=20, force=True) is None


class TestDirtyRatio:
    """LogCleanerManager.grabFilthiestCompactedLog: above min.cleanable.dirty.ratio, not at it."""

    @pytest.mark.parametrize(("ratio", "is_due"), [(0.49, True), (0.5, False), (0.51, False)])
    def test_must_exceed_the_limit(self, ratio: float, is_due: bool) -> None:
        assert (plan(log(5, 5, 5), first_dirty=10, ratio=ratio) is not None) is is_due

    def test_of_one_is_never_above_one(self) -> None:
        assert plan(log(1, 1), ratio=1.0) is None
        assert plan(log(1, 1), ratio=1.0, force=True) is not None

    def test_does_not_count_the_newest_segment(self) -> None:
        assert plan(log(6, 5, 1000), first_dirty=10) is None

    def test_does_not_count_what_is_too_young(self) -> None:
        segments = [entry(0, 6), entry(10, 5, max_timestamp=1), entry(20, 1000), entry(30)]

        assert plan(segments, first_dirty=10, min_lag_ms=DAY_MS) is None


class TestLastStableOffset:
    @pytest.mark.parametrize(("offset", "end"), [(9, None), (10, 10), (19, 10), (20, 20), (99, 30)])
    def test_ends_what_is_compacted_segment_by_segment(self, offset: int, end: int | None) -> None:
        found = plan_compaction(
            log(1, 1, 1, 1), 0, policy(), NOW, last_stable_offset=offset, force=True
        )

        assert (found and found.end_offset) == end


class TestMinimumLag:
    @pytest.mark.parametrize(("age_ms", "is_young"), [(DAY_MS - 1, True), (DAY_MS, False)])
    def test_ends_at_the_first_segment_with_a_younger_record(
        self, age_ms: int, is_young: bool
    ) -> None:
        segments = [entry(0, max_timestamp=1), entry(10, max_timestamp=NOW - age_ms)]
        found = plan([*segments, entry(20, max_timestamp=1), entry(30)], min_lag_ms=DAY_MS)

        assert found is not None
        assert found.end_offset == (10 if is_young else 30)

    def test_of_zero_asks_for_no_time(self) -> None:
        """Not even for one that lies in the future."""
        assert plan(log(1, 1, max_timestamp=NOW + DAY_MS)) is not None

    @pytest.mark.parametrize(("created_ms", "is_young"), [(NOW, True), (NOW - DAY_MS, False)])
    def test_without_timestamps_counts_from_when_the_segment_was_made(
        self, created_ms: int, is_young: bool
    ) -> None:
        segments = log(1, 1, max_timestamp=-1, created_ms=created_ms)

        assert (plan(segments, min_lag_ms=DAY_MS) is None) is is_young

    def test_of_a_clean_segment_does_not_matter(self) -> None:
        segments = [entry(0), entry(10, 9, max_timestamp=1), entry(20)]

        assert plan(segments, first_dirty=10, min_lag_ms=DAY_MS) is not None


class TestMaximumLag:
    @pytest.mark.parametrize(("age_ms", "is_due"), [(DAY_MS, False), (DAY_MS + 1, True)])
    def test_makes_an_older_record_due(self, age_ms: int, is_due: bool) -> None:
        segments = [entry(0, 99), entry(10, 1, min_timestamp=NOW - age_ms), entry(20)]

        assert (plan(segments, first_dirty=10, max_lag_ms=DAY_MS) is not None) is is_due

    @pytest.mark.parametrize("time", [None, -1, 0])
    def test_does_not_know_the_age_of_records_without_a_time(self, time: int | None) -> None:
        bare: dict[str, Any] = {"min_timestamp": time, "max_timestamp": -1, "created_ms": 1}
        segments = [entry(0, 99), entry(10, 1, **bare), entry(20)]

        assert plan(segments, first_dirty=10, max_lag_ms=DAY_MS) is None

    def test_takes_the_time_of_making_if_some_records_have_none(self) -> None:
        made = {"min_timestamp": -1, "max_timestamp": NOW}
        segments = [entry(0, 99), entry(10, 1, **made, created_ms=NOW - DAY_MS - 1), entry(20)]

        assert plan(segments, first_dirty=10, max_lag_ms=DAY_MS) is not None
        assert plan(segments, first_dirty=10, max_lag_ms=DAY_MS + 1) is None

    def test_does_not_ask_clean_segments_or_the_newest(self) -> None:
        segments = [entry(0, 99, min_timestamp=1), entry(10), entry(20, min_timestamp=1)]

        assert plan(segments, first_dirty=10, max_lag_ms=DAY_MS) is None


times = st.sampled_from([-1, 0, 1, NOW - DAY_MS - 1, NOW - DAY_MS, NOW - DAY_MS + 1, NOW])


@st.composite
def logs(draw: Callable[..., Any]) -> list[SegmentEntry]:
    """Up to eight segments with gaps, of any size and time."""
    found: list[SegmentEntry] = []
    base = 0
    for _ in range(draw(st.integers(0, 8))):
        base += draw(st.sampled_from([0, 0, 1, SPAN]))
        span = draw(st.sampled_from([1, 10, SPAN - 20]))
        columns = {
            "min_timestamp": draw(st.none() | times),
            "max_timestamp": draw(times),
            "created_ms": draw(times),
            "index_bytes": draw(st.none() | st.integers(0, 30)),
            "time_index_bytes": draw(st.none() | st.integers(0, 30)),
        }
        found.append(entry(base, draw(st.integers(1, 60)), span, **columns))
        base += span
    return found


class TestAnyPlan:
    @given(logs(), st.integers(0, 60), st.floats(0, 1), st.sampled_from([0, DAY_MS]), times)
    @example(log(1, 1, 1), 0, 0.5, 0, NOW)
    @example(log(1, 1, 1), 20, 0.5, 0, NOW)
    def test_is_what_the_naive_one_finds(
        self, segments: list[SegmentEntry], first: int, ratio: float, min_lag: int, max_lag: int
    ) -> None:
        rules = policy(ratio, min_lag, max_lag if max_lag > 0 else FOREVER)
        found = plan_compaction(segments, first, rules, NOW)
        expected = naive.due(segments, first, rules, NOW)

        assert (found and (found.clean, found.dirty)) == expected


# --- groups --------------------------------------------------------------------------------------


def limits(segment_bytes: int = 100, segment_index_bytes: int = 100) -> TopicConfig:
    return replace(DEFAULTS, segment_bytes=segment_bytes, segment_index_bytes=segment_index_bytes)


def grouped(segments: Sequence[SegmentEntry], *touched: int) -> list[list[int]]:
    """The bases of the segments of each group; `touched` are numbers of segments."""
    keys = frozenset(segments[number].key for number in touched)
    return [bases(group) for group in plan_groups(segments, keys, limits())]


class TestGroups:
    def test_join_touched_neighbours_up_to_the_size_of_a_segment(self) -> None:
        assert grouped(log(50, 50, 50, 50, 50), 0, 1, 2, 3, 4) == [[0, 10], [20, 30], [40]]

    def test_hold_a_segment_that_alone_is_too_large(self) -> None:
        assert grouped(log(500, 10, 500), 0, 1, 2) == [[0], [10], [20]]

    def test_leave_out_what_is_not_touched(self) -> None:
        assert grouped(log(5, 50, 5, 50), 0, 2) == [[0], [20]]
        assert grouped(log(5, 5, 5)) == []

    def test_take_in_untouched_ones_that_are_no_larger(self) -> None:
        assert grouped(log(5, 5, 6, 5), 1) == [[0, 10, 20, 30]]

    def test_do_not_take_in_a_larger_one(self) -> None:
        assert grouped(log(6, 5, 6), 1) == [[10]]

    def test_take_in_those_in_front_as_the_group_grows(self) -> None:
        assert grouped(log(20, 10, 5, 5), 3) == [[0, 10, 20, 30]]
        assert grouped(log(21, 10, 5, 5), 3) == [[10, 20, 30]]

    def test_take_none_in_that_does_not_fit(self) -> None:
        assert grouped(log(50, 51, 50), 1) == [[10]]

    def test_end_behind_one_that_stays(self) -> None:
        """A touched one behind it begins a group, even if both would fit into one."""
        assert grouped(log(5, 20, 5, 5), 0, 2, 3) == [[0], [20, 30]]

    @pytest.mark.parametrize("name", ["index_bytes", "time_index_bytes"])
    def test_keep_to_the_size_of_an_index(self, name: str) -> None:
        segments = log(1, 1, 1, **{name: 50})

        assert grouped(segments, 0, 1, 2) == [[0, 10], [20]]

    @pytest.mark.parametrize(("base", "count"), [(SPAN - 10, 1), (SPAN - 9, 2)])
    def test_never_span_more_offsets_than_an_index_can_say(self, base: int, count: int) -> None:
        assert len(grouped([entry(0), entry(base)], 0, 1)) == count

    def test_may_be_one_segment_that_alone_spans_more(self) -> None:
        assert grouped([entry(0, span=2 * SPAN), entry(2 * SPAN)], 0, 1) == [[0], [2 * SPAN]]


class TestAnyGroups:
    @given(logs(), st.frozensets(st.integers(0, 7)), st.integers(1, 120), st.integers(1, 60))
    @example(log(20, 10, 5, 5, 90, 7), frozenset({3, 5}), 100, 50)
    @example(log(5, 5, 6, 5), frozenset({1}), 100, 50)
    @example(log(5, 5, span=SPAN), frozenset({1}), 100, 50)
    def test_are_what_the_naive_one_finds(
        self, segments: list[SegmentEntry], touched: frozenset[int], size: int, index: int
    ) -> None:
        keys = frozenset(one.key for number, one in enumerate(segments) if number in touched)
        within = limits(size, index)

        assert plan_groups(segments, keys, within) == naive.groups(segments, keys, within)

    @given(logs(), st.frozensets(st.integers(0, 7)), st.integers(1, 120))
    @example(log(20, 10, 5, 5, 90, 7), frozenset({3, 5}), 100)
    def test_are_runs_that_hold_every_touched_segment_once(
        self, segments: list[SegmentEntry], touched: frozenset[int], size: int
    ) -> None:
        """And a segment that need not be rewritten at most doubles what is."""
        keys = frozenset(one.key for number, one in enumerate(segments) if number in touched)
        found = plan_groups(segments, keys, limits(size))
        rewritten = [one for group in found for one in group]

        assert rewritten == sorted(rewritten, key=lambda one: one.base_offset)
        assert keys <= {one.key for one in rewritten}
        assert len({one.log_path for one in rewritten}) == len(rewritten)
        for group in found:
            start = segments.index(group[0])
            assert list(group) == segments[start : start + len(group)]
            assert any(one.key in keys for one in group)
            assert naive.fits(list(group), limits(size))
