from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import log2
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.config import TopicConfig
from sparklog.log.merge import MergeLimits, plan_merge
from sparklog.model import SegmentEntry
from tests.naive import merge as naive

LIMITS = MergeLimits(
    segment_bytes=1000,
    segment_ms=1000,
    segment_index_bytes=12 * 9,
    index_interval_bytes=99,
    small_bytes=25,
)
HOUR_MS = 3_600_000


def segment(base: int, size: int = 100, records: int = 10, **columns: Any) -> SegmentEntry:
    values = {"min_timestamp": 5000, "max_timestamp": 5000, "batch_count": 1, "created_ms": 5000}
    return SegmentEntry(
        partition=0,
        base_offset=base,
        next_offset=base + records,
        file_base_offset=0,
        log_path=f"{base}.log",
        log_bytes=size,
        **(values | columns),
    )


def row(*sizes: int, **columns: Any) -> list[SegmentEntry]:
    """Neighbours of these sizes, ten records each."""
    return [segment(slot * 10, size, **columns) for slot, size in enumerate(sizes)]


def sizes_of(entries: Sequence[SegmentEntry], **where: Any) -> list[list[int]]:
    """The sizes of each group."""
    groups = plan_merge(entries, LIMITS, **where)
    return [[entry.log_bytes for entry in group] for group in groups]


def joined(group: Sequence[SegmentEntry]) -> SegmentEntry:
    """The row of the segment that a group becomes, as far as a plan looks at it."""
    newest = max(entry.max_timestamp for entry in group)
    lowest = [entry.min_timestamp for entry in group if entry.min_timestamp is not None]
    counts = [entry.batch_count for entry in group if entry.batch_count is not None]
    return group[0]._replace(
        next_offset=group[-1].next_offset,
        log_bytes=sum(entry.log_bytes for entry in group),
        batch_count=sum(counts),
        min_timestamp=min(lowest) if len(lowest) == len(group) else None,
        max_timestamp=newest,
        created_ms=(max if newest < 0 else min)(entry.created_ms for entry in group),
    )


times = st.one_of(st.none(), st.integers(-1, 3000))


@st.composite
def logs(draw: st.DrawFn) -> list[SegmentEntry]:
    """Segments with gaps between them, of every kind; -1 is that without timestamps."""
    found, base = [], 0
    for _ in range(draw(st.integers(0, 12))):
        base += draw(st.sampled_from([0, 0, 0, 1, 2**30]))
        newest = draw(st.integers(-1, 3000))
        records = draw(st.sampled_from([1, 10, 2**30]))
        paths = draw(st.sampled_from([{}] * 6 + [{"txn_index_path": "t"}, {"key_index_path": "k"}]))
        one = segment(
            base,
            draw(st.sampled_from([0, 1, 50, 100, 300, 499, 500, 999, 1000, 1001])),
            records,
            batch_count=draw(st.integers(0, 5)),
            max_timestamp=newest,
            min_timestamp=draw(times) if newest >= 0 else None,
            created_ms=draw(st.integers(0, 3000)),
            **paths,
        )
        found.append(one)
        base += records
    return found


class TestPlanMerge:
    @example(row(10, 20, 10, max_timestamp=-1), 10, 0, 99)
    @example([segment(0), segment(10, txn_index_path="t"), segment(20)], 0, 0, 99)
    @example(row(400, 400, 400, 10, 900, 10, 10), 0, 0, 99)
    @given(logs(), st.integers(0, 2**32), st.integers(0, 2**32), st.sampled_from([0, 99, 400]))
    def test_says_what_the_naive_plan_says(
        self, entries: list[SegmentEntry], cleaner: int, start: int, interval: int
    ) -> None:
        limits = replace(LIMITS, index_interval_bytes=interval)
        found = plan_merge(entries, limits, cleaner_offset=cleaner, log_start_offset=start)

        assert [list(group) for group in found] == naive.merge(entries, limits, cleaner, start)

    @example(
        [
            segment(0, min_timestamp=0, max_timestamp=0),
            segment(10, min_timestamp=None, max_timestamp=-1, created_ms=1001),
            segment(20, min_timestamp=1, max_timestamp=1),
        ]
    )
    @given(logs())
    def test_comes_to_an_end(self, entries: list[SegmentEntry]) -> None:
        """A merge changes the times of its segments, so the next run may find more to do."""
        for _ in range(len(entries)):
            entries = applied(entries, plan_merge(entries, LIMITS))

        assert plan_merge(entries, LIMITS) == []

    @given(logs(), st.integers(0, 3000), st.integers(0, 3000))
    def test_of_what_it_has_made_finds_only_what_is_open(
        self, entries: list[SegmentEntry], earliest: int, made: int
    ) -> None:
        """Goal: a run right after a run has nothing to do, if times keep nothing apart."""
        entries = [
            entry._replace(min_timestamp=earliest, max_timestamp=earliest, created_ms=made)
            for entry in entries
        ]
        after = applied(entries, plan_merge(entries, LIMITS))

        assert plan_merge(after, LIMITS) == []

    def test_of_nothing_is_nothing(self) -> None:
        assert plan_merge([], LIMITS) == plan_merge(row(1), LIMITS) == []

    def test_fills_segments_from_the_oldest_on(self) -> None:
        assert sizes_of(row(400, 400, 400, 400, 400)) == [[400, 400], [400, 400]]

    def test_takes_exactly_segment_bytes(self) -> None:
        assert sizes_of(row(900, 100, 1)) == [[900, 100]]
        assert sizes_of(row(900, 101, 1)) == []

    def test_lets_the_largest_stand_aside_while_more_may_come(self) -> None:
        assert sizes_of(row(500, 10, 10, 10)) == [[10, 10, 10]]
        assert sizes_of(row(10, 10, 500, 20, 20)) == [[10, 10], [20, 20]]
        assert sizes_of(row(30, 10, 10, 10)) == [[30, 10, 10, 10]]

    def test_joins_what_is_small_in_all(self) -> None:
        assert sizes_of(row(1, 20, 4)) == [[1, 20, 4]]
        assert sizes_of(row(1, 20, 5)) == []

    def test_seals_all_that_is_not_sealed(self) -> None:
        sealed = segment(0, 999)._replace(file_base_offset=0)
        entries = [sealed, *row(999, 999, 1)[1:]]
        groups = plan_merge(entries, LIMITS, seal=True)

        assert [[entry.log_bytes for entry in group] for group in groups] == [[999, 1]]
        assert plan_merge([*entries[:2], segment(20, 2)], LIMITS, seal=True)[0] == (entries[1],)

    def test_seals_a_slice_of_a_shared_segment(self) -> None:
        """It may have the log's offsets, but it has no file of its own."""
        entry = segment(0)._replace(log_path="__shared/x.log")

        assert plan_merge([entry], LIMITS, seal=True) == [(entry,)]

    def test_keeps_the_span_of_timestamps(self) -> None:
        first = row(30)[0]
        later = segment(10, 30, min_timestamp=5500, max_timestamp=6000)

        assert len(plan_merge([first, later], LIMITS)) == 1
        assert plan_merge([first, later._replace(max_timestamp=6001)], LIMITS) == []

    def test_takes_older_segments_behind_newer_ones_if_all_are_small(self) -> None:
        now = {"min_timestamp": 5000, "max_timestamp": 5000}
        old = {"min_timestamp": 0, "max_timestamp": 0}
        mixed = [segment(slot * 10, 1, **(old if slot % 2 else now)) for slot in range(20)]

        assert plan_merge(mixed, LIMITS) == [tuple(mixed)]
        assert plan_merge(mixed[1:], LIMITS) == [tuple(mixed[2:])]
        assert sizes_of([one._replace(log_bytes=2) for one in mixed]) == [[2] * 12, [2] * 8]

    def test_joins_segments_of_old_and_new_timestamps_for_segment_ms(self) -> None:
        """Goal: few small segments, and none whose newest time moves on and on."""
        entries: list[SegmentEntry] = []
        for slot in range(100):
            now_ms = 5000 + 20 * slot
            times = {"min_timestamp": 0, "max_timestamp": now_ms, "created_ms": now_ms}
            entries = [*entries, segment(slot * 10, 1, **times)]
            entries = applied(entries, plan_merge(entries, LIMITS))

        assert [entry.max_timestamp for entry in entries] == [5480, 5980, 6480, 6980]

    def test_takes_a_smallest_timestamp_that_is_not_known_for_0(self) -> None:
        first, second = row(10, 10, min_timestamp=None)

        assert sizes_of(row(30, 30, min_timestamp=None)) == []
        assert sizes_of(row(30, 30, min_timestamp=None, max_timestamp=1000)) == [[30, 30]]
        assert plan_merge([first, second], LIMITS) == [(first, second)]
        assert plan_merge([first, second._replace(created_ms=6001)], LIMITS) == []
        assert plan_merge([first, second._replace(max_timestamp=6001)], LIMITS) == []

    def test_takes_the_time_of_making_where_there_are_no_timestamps(self) -> None:
        bare = {"min_timestamp": None, "max_timestamp": -1}
        first, second = row(10, 10, **bare)

        assert len(plan_merge([first, second], LIMITS)) == 1
        assert plan_merge([first, second._replace(created_ms=6001)], LIMITS) == []

    def test_leaves_room_for_the_last_entry_of_the_time_index(self) -> None:
        assert sizes_of(row(400, 400, batch_count=4)) == [[400, 400]]
        assert sizes_of(row(450, 450, batch_count=4)) == [[450, 450]]
        assert sizes_of(row(450, 450, batch_count=5)) == []

    def test_guesses_batches_that_nobody_counted(self) -> None:
        limits = replace(LIMITS, index_interval_bytes=0)
        entries = row(104, 104, batch_count=None)

        assert len(plan_merge(entries, limits)) == 1
        assert plan_merge(row(130, 104, batch_count=None), limits) == []

    @pytest.mark.parametrize(("base", "count"), [(2**31 - 10, 1), (2**31 - 9, 0)])
    def test_keeps_the_span_of_offsets(self, base: int, count: int) -> None:
        assert len(plan_merge([segment(0, 10), segment(base, 10)], LIMITS)) == count

    def test_never_crosses_the_cleaner_offset(self) -> None:
        entries = row(10, 10, 10, 10)

        assert sizes_of(entries, cleaner_offset=20) == [[10, 10], [10, 10]]
        assert sizes_of(entries, cleaner_offset=10) == [[10, 10, 10]]
        assert sizes_of(entries, cleaner_offset=40) == [[10] * 4]

    def test_leaves_out_a_segment_with_a_transaction_index(self) -> None:
        first, second, _, *rest = row(10, 10, 10, 10, 10)
        entries = [first, second, segment(20, 10, txn_index_path="t-0/x"), *rest]

        assert sizes_of(entries) == [[10, 10], [10, 10]]

    def test_keeps_segments_with_a_key_index_apart(self) -> None:
        keyed = [segment(base, 10, key_index_path="t-0/x") for base in (20, 30, 40)]

        assert sizes_of([*row(10, 11), *keyed]) == [[10, 11], [10, 10, 10]]

    def test_leaves_what_lies_below_the_log_start_to_retention(self) -> None:
        assert sizes_of(row(10, 10, 10, 10), log_start_offset=10) == [[10, 10, 10]]
        assert sizes_of(row(10, 10, 10, 10), log_start_offset=9) == [[10] * 4]


def applied(
    entries: Sequence[SegmentEntry], groups: Sequence[Sequence[SegmentEntry]]
) -> list[SegmentEntry]:
    """The log after a merge."""
    inside = {entry.log_path for group in groups for entry in group}
    kept = [entry for entry in entries if entry.log_path not in inside]
    return sorted([*kept, *map(joined, groups)], key=lambda entry: entry.base_offset)


class TestAmplification:
    @pytest.mark.parametrize("seed", range(5))
    def test_a_byte_is_rewritten_a_few_times_while_the_log_grows(self, seed: int) -> None:
        """Goal: the bound in the docstring. Method: merge after every produce, and count."""
        random = Random(seed)
        limits = replace(LIMITS, segment_bytes=1 << 12, segment_index_bytes=1 << 20, small_bytes=0)
        entries: list[SegmentEntry] = []
        rewritten: dict[int, int] = {}
        size_of: dict[int, int] = {}
        for base in range(0, 6000, 10):
            entries.append(segment(base, random.choice([1, 16, 16, 64, random.randint(1, 3000)])))
            size_of[base], rewritten[base] = entries[-1].log_bytes, 0
            groups = plan_merge(entries, limits)
            for group in groups:
                for at in range(group[0].base_offset, group[-1].next_offset, 10):
                    rewritten[at] += 1
            entries = applied(entries, groups)

        bounds = {
            base: int(log2(limits.segment_bytes / size)) + 1 for base, size in size_of.items()
        }
        assert all(times <= bounds[base] for base, times in rewritten.items())
        assert max(rewritten.values()) >= 3

    def test_few_segments_stay(self) -> None:
        entries: list[SegmentEntry] = []
        for base in range(0, 20_000, 10):
            entries = [*entries, segment(base, 16)]
            entries = applied(entries, plan_merge(entries, LIMITS))

        sizes = [entry.log_bytes for entry in entries]
        full = list(accumulate(sizes))[-1] // LIMITS.segment_bytes
        assert len(sizes) <= full * 2 + log2(LIMITS.segment_bytes)
        assert all(one.next_offset == two.base_offset for one, two in pairwise(entries))


class TestMergeLimits:
    def test_are_the_topics(self) -> None:
        config = TopicConfig.parse(
            {"segment.bytes": 1 << 20, "segment.ms": HOUR_MS, "index.interval.bytes": 7}
        )

        assert MergeLimits.of(config) == MergeLimits(
            segment_bytes=1 << 20,
            segment_ms=HOUR_MS,
            segment_index_bytes=10485760,
            index_interval_bytes=7,
        )

    def test_of_a_compacted_topic_heed_the_compaction_lag(self) -> None:
        config = TopicConfig.parse({"cleanup.policy": "compact", "max.compaction.lag.ms": HOUR_MS})

        assert MergeLimits.of(config).segment_ms == HOUR_MS


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([100, 100, 100], []),
        ([100, 100, 100, 100], [[100, 100, 100, 100]]),
        ([400, 100, 100, 100, 100], [[100, 100, 100, 100]]),
        ([10, 10], [[10, 10]]),
    ],
)
def test_a_larger_growth_waits_for_more_neighbours(
    sizes: list[int], groups: list[list[int]]
) -> None:
    found = plan_merge(row(*sizes), replace(LIMITS, growth=4))
    assert [[entry.log_bytes for entry in group] for group in found] == groups
