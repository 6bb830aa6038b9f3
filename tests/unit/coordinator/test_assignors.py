"""Assignors give every partition that somebody reads to one reader of it, and share them out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.coordinator import assignors as assignors_module
from sparklog.coordinator.assignors import (
    ASSIGNORS,
    Assignor,
    Partitions,
    Reader,
    Readers,
    in_ranges,
    uniform,
)

TOPICS = ("a", "b", "c")
Counts = dict[str, int]
assignors = pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
counts_of = st.fixed_dictionaries({}, optional={name: st.integers(1, 9) for name in TOPICS})
held = st.frozensets(st.tuples(st.sampled_from(TOPICS), st.integers(0, 11)), max_size=12)
readers_of = st.dictionaries(
    st.text("mno", min_size=1, max_size=2),
    st.builds(Reader, st.frozensets(st.sampled_from(TOPICS)), held, st.none() | st.text("i")),
    max_size=6,
)


def readers(*names: str, topics: str = "a") -> Readers:
    return {name: Reader(frozenset(topics)) for name in names}


def again(before: Readers, found: dict[str, Partitions]) -> Readers:
    """The same readers with what they were given."""
    return {name: one._replace(assigned=found[name]) for name, one in before.items()}


@assignors
@given(members=readers_of, counts=counts_of)
def test_every_partition_that_is_read_has_one_reader_of_its_topic(
    assign: Assignor, members: Readers, counts: Counts
) -> None:
    found = assign(members, counts)
    assert found.keys() == members.keys()
    given_out = sorted(place for places in found.values() for place in places)
    read = {topic for one in members.values() for topic in one.topic_ids}
    assert given_out == sorted(
        (topic, number)
        for topic, count in counts.items()
        if topic in read
        for number in range(count)
    )
    assert all(
        topic in members[name].topic_ids for name, places in found.items() for topic, _ in places
    )


@assignors
@given(names=st.sets(st.text("mno", min_size=1), min_size=1, max_size=6), counts=counts_of)
def test_what_was_given_is_given_again(assign: Assignor, names: set[str], counts: Counts) -> None:
    members = readers(*names, topics="abc")
    found = assign(members, counts)
    assert assign(again(members, found), counts) == found


class TestUniform:
    @given(names=st.sets(st.text("mno", min_size=1), min_size=1, max_size=6), counts=counts_of)
    def test_those_that_read_the_same_differ_by_one_at_most(
        self, names: set[str], counts: Counts
    ) -> None:
        sizes = [len(one) for one in uniform(readers(*names, topics="abc"), counts).values()]
        assert max(sizes) - min(sizes) <= 1

    @given(members=readers_of, counts=counts_of)
    def test_no_move_makes_it_fairer(self, members: Readers, counts: Counts) -> None:
        found = uniform(members, counts)
        for places in found.values():
            for topic, _ in places:
                others = [len(found[n]) for n, one in members.items() if topic in one.topic_ids]
                assert len(places) - min(others) < 2

    def test_a_new_member_takes_no_more_than_its_share(self) -> None:
        before = readers("m", "n")
        found = uniform(before, {"a": 6})
        after = uniform({**again(before, found), **readers("o")}, {"a": 6})
        assert [len(after[name] & found[name]) for name in "mn"] == [2, 2]
        assert len(after["o"]) == 2

    def test_a_topic_of_few_readers_goes_to_them_and_the_rest_to_others(self) -> None:
        members = {**readers("m", topics="ab"), **readers("n", topics="a")}
        found = uniform(members, {"a": 2, "b": 2})
        assert found == {"m": {("b", 0), ("b", 1)}, "n": {("a", 0), ("a", 1)}}

    def test_members_that_read_the_same_are_not_compared_for_each_partition(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A new member joins 99 that have got all: it takes some partitions, and the rest stay."""
        counted: list[int] = []

        def counting(*given: Any, **options: Any) -> Any:
            counted.append(1)
            return min(*given, **options)

        monkeypatch.setattr(assignors_module, "min", counting, raising=False)
        before = readers(*(f"m{number:02}" for number in range(99)))
        held = again(before, uniform(before, {"a": 9_900}))
        after = uniform({**held, **readers("new")}, {"a": 9_900})
        assert len(after["new"]) == 99
        assert len(counted) < 1_000  # of 9,900 partitions


class TestRange:
    def test_the_first_ones_have_one_more(self) -> None:
        found = in_ranges(readers("o", "m", "n"), {"a": 7})
        ranges = {name: sorted(number for _, number in one) for name, one in found.items()}
        assert ranges == {"m": [0, 1, 2], "n": [3, 4], "o": [5, 6]}

    def test_readers_of_the_same_topics_have_the_same_ranges(self) -> None:
        found = in_ranges(readers("m", "n", topics="ab"), {"a": 3, "b": 3})
        assert found["m"] == {(topic, number) for topic in "ab" for number in (0, 1)}

    def test_static_members_come_first_by_their_instance_ids(self) -> None:
        members = {
            "m": Reader(frozenset("a")),
            "n": Reader(frozenset("a"), instance_id="2"),
            "o": Reader(frozenset("a"), instance_id="1"),
        }
        assert in_ranges(members, {"a": 3}) == {"o": {("a", 0)}, "n": {("a", 1)}, "m": {("a", 2)}}
