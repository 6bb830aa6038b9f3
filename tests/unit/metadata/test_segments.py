"""The live segments of a partition against a list: appended, spliced, changed, searched."""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparklog.metadata.state.segment_tables import segment_entries, segments_table
from sparklog.metadata.state.segments import (
    CHUNKS_MAX,
    NEVER_MS,
    NO_PIECES,
    TAIL_MAX,
    WAITING_MAX,
    LiveSegments,
    Slices,
)
from sparklog.model import SHARED_PREFIX, SegmentEntry
from tests.edits import segment

RECORDS = 10


def entry(base_offset: int, number: int, span: int = RECORDS) -> SegmentEntry:
    """A segment of its own path."""
    return segment()._replace(
        base_offset=base_offset,
        next_offset=base_offset + span,
        log_path=f"t-0/{base_offset}.{number}.log",
        index_path=None,
        index_bytes=None,
    )


def appended(count: int) -> tuple[LiveSegments, list[SegmentEntry]]:
    """That many segments, one after another."""
    entries = [entry(number * RECORDS, 0) for number in range(count)]
    live = LiveSegments(NO_PIECES)
    for one in entries:
        live = live.appended([one])
    return live, entries


def slice_or_segment(number: int, random: Random) -> SegmentEntry:
    """A segment of its own path, or a slice of one of three shared segments."""
    one = entry(number * RECORDS, 0)
    if random.random() < 0.3:
        return one
    return one._replace(
        log_path=f"{SHARED_PREFIX}{random.randrange(3)}.log",
        log_position=number * random.choice([1, 2**31]),
    )


def replaced(
    live: LiveSegments, gone: list[SegmentEntry], added: list[SegmentEntry]
) -> LiveSegments:
    return live.changed([one.key for one in gone], added)[0]


class TestFind:
    def test_meets_rows_and_those_appended_since(self) -> None:
        live, twin = appended(70)
        live = live.appended([entry(70 * RECORDS, 0)])
        wanted = [live.entries()[70], twin[69], twin[3]]

        assert live.entries() == [*twin, wanted[0]]
        assert live.find([one.key for one in wanted]) == [twin[3], twin[69], wanted[0]]
        assert live.find([entry(0, 9).key]) == []

    def test_meets_those_appended_alone(self) -> None:
        live, twin = appended(3)

        assert live.find([twin[2].key, twin[0].key]) == [twin[0], twin[2]]

    @given(st.integers(0, 2 * TAIL_MAX), st.randoms(use_true_random=False))
    def test_finds_slices_by_path_and_position(self, count: int, random: Random) -> None:
        twin = [slice_or_segment(number, random) for number in range(count)]
        live = LiveSegments(NO_PIECES)
        for one in twin:
            live = live.appended([one])
        others = [slice_or_segment(number, random) for number in range(count, count + 3)]
        wanted = random.sample([*twin, *others], random.randint(0, count))
        found = [one for one in twin if one in wanted]
        spans = live.spans([one.key for one in wanted])

        assert live.find([one.key for one in wanted]) == found
        assert spans.base_offset.tolist() == [one.base_offset for one in found]
        assert spans.next_offset.tolist() == [one.next_offset for one in found]


class TestChanged:
    @given(st.integers(1, 90), st.randoms(use_true_random=False))
    def test_is_a_list_of_which_some_are_swapped(self, count: int, random: Random) -> None:
        live, twin = appended(count)
        for number in range(1, 6):
            gone = random.sample(twin, random.randint(0, min(len(twin), 4)))
            kept = [one for one in gone if random.random() < 0.6]
            added = [entry(one.base_offset, number) for one in kept]
            random.shuffle(added)
            live = replaced(live, gone, added)
            rest = [one for one in twin if one not in gone]
            twin = sorted([*rest, *added], key=lambda one: one.base_offset)

        assert segment_entries(live.table) == twin
        assert len(live) == len(twin)

    def test_some_that_lie_apart_are_swapped(self) -> None:
        live, twin = appended(4)
        new = [entry(20, 1), entry(0, 1)]

        found = replaced(live, [twin[0], twin[2]], new)

        assert segment_entries(found.table) == [new[1], twin[1], new[0], twin[3]]

    def test_some_that_follow_each_other_become_one(self) -> None:
        live, twin = appended(70)
        joined = entry(10, 1, 3 * RECORDS)

        found = replaced(live, twin[1:4], [joined])

        assert segment_entries(found.table) == [twin[0], joined, *twin[4:]]
        assert found.by_offset.first_ending_after(25) == 1

    def test_the_table_of_many_changes_is_joined_again(self) -> None:
        live, twin = appended(TAIL_MAX + 2 * CHUNKS_MAX)
        for at in range(0, len(twin), 2):
            new = entry(twin[at].base_offset, 1)
            live, twin[at] = replaced(live, [twin[at]], [new]), new
            assert live.table.column(0).num_chunks <= CHUNKS_MAX + 3

        assert segment_entries(live.table) == twin


class TestWaiting:
    """Changes that nobody looks at are not made; the log's end needs none of them."""

    def test_ends_with_the_first_look(self) -> None:
        live, twin = appended(70)
        new = entry(0, 1)
        live, taken_out = live.changed([twin[0].key], [new])
        grown = live.appended([entry(70 * RECORDS, 0)])
        assert (grown.waiting, taken_out.waiting) == (1, 1)

        found = taken_out.get()

        assert found == {twin[0].key: twin[0]}
        assert (grown.waiting, live.waiting, taken_out.waiting) == (0, 0, 0)
        assert grown.entries()[:2] == [new, twin[1]]

    @pytest.mark.parametrize("count", [1, TAIL_MAX])
    def test_slices_of_shared_segments_are_not_kept(self, count: int) -> None:
        live, own = appended(count)
        path = f"{SHARED_PREFIX}0.log"
        both = [
            entry((count + at) * RECORDS, 0)._replace(log_path=path, log_position=at)
            for at in (1, 2)
        ]
        gone = [own[0], *both]
        after, taken_out = live.appended(both).changed([one.key for one in gone], [])

        assert taken_out.get() == {own[0].key: own[0]}
        assert after.entries() == own[1:]

    def test_few_segments_are_changed_at_once(self) -> None:
        _, twin = appended(5)
        new = entry(RECORDS, 1, span=2 * RECORDS)
        live = LiveSegments.of(segments_table(twin))
        live, taken_out = live.changed([one.key for one in twin[1:3]], [new])

        assert (live.waiting, taken_out.waiting) == (0, 0)
        assert live.entries() == [twin[0], new, *twin[3:]]
        assert len(live.spans([twin[3].key, twin[1].key, new.key]).base_offset) == 2
        assert taken_out.get() == {one.key: one for one in twin[1:3]}

    def test_so_many_changes_wait_and_no_more(self) -> None:
        live, twin = appended(TAIL_MAX + 1)
        for number in range(1, 2 * WAITING_MAX):
            new = entry(0, number)
            live, twin[0] = replaced(live, [twin[0]], [new]), new
            assert live.waiting == (number - 1) % WAITING_MAX + 1

        assert live.entries() == twin


class TestLast:
    @given(st.integers(0, 200), st.integers(0, 250))
    def test_is_the_end_of_the_list(self, count: int, wanted: int) -> None:
        live, twin = appended(count)
        assert live.last(wanted) == (twin[-wanted:] if wanted else [])

    @given(st.integers(0, 200), st.integers(0, 250), st.randoms(use_true_random=False))
    def test_has_these_slices(self, count: int, wanted: int, random: Random) -> None:
        live, twin = LiveSegments(NO_PIECES), list[SegmentEntry]()
        for number in range(count):
            one = slice_or_segment(number, random)
            twin.append(one._replace(log_bytes=number, created_ms=random.randrange(1000)))
            live = live.appended(twin[-1:])
        found = [one for one in (twin[-wanted:] if wanted else []) if one.is_shared]

        for _ in "once", "again":
            assert live.slices(wanted) == Slices(
                len(found),
                sum(one.log_bytes for one in found),
                min((one.created_ms for one in found), default=NEVER_MS),
            )
