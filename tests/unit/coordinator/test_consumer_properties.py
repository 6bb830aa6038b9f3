"""Random members of a consumer group: no partition has two owners, epochs grow, all settles."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sparklog.coordinator.requests import DescribedConsumer
from tests.consumer_language import Consumers, Reader, settle

NAMES = ("ada", "bob", "eva", "kim")
KINDS = {
    "ada": {},
    "bob": {"topic_regex": "flights|trains"},
    "eva": {"assignor": "range"},
    "kim": {"topic_regex": "flights|trains"},
}
steps = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(("join", "beat", "beat", "lose", "leave")), st.sampled_from(NAMES)
        ),
        st.tuples(st.just("restart"), st.just("")),
        st.tuples(st.just("wait"), st.sampled_from(("1000", "30000", "45000"))),
        st.tuples(st.just("grow"), st.sampled_from(("flights", "trains"))),
    ),
    max_size=40,
)


class Bystander:
    """Looks at a group after every step."""

    def __init__(self) -> None:
        self.group = Consumers(flights=4)
        self.readers = {name: self.group.reader(name, **KINDS[name]) for name in NAMES}

    def does(self, what: str, whom: str) -> None:
        group, reader = self.group, self.readers.get(whom)
        if reader is not None:
            self.asks(what, reader)
        elif what == "restart":
            group.restarts()
        elif what == "wait":
            group.passes(int(whom))
        else:
            topic = group.topics.get(whom)
            group.has(**{whom: 1 + (topic.num_partitions if topic else 0)})

    def asks(self, what: str, reader: Reader) -> None:
        match what:
            case "join":
                reader.joins()
            case "lose":
                reader.asks()
            case "leave":
                reader.leaves()
                reader.epoch, reader.owned = 0, frozenset()
            case _:
                if reader.beats().error_code:
                    reader.joins()

    def sees(self) -> None:
        members = self.members()
        owners = Counter(place for one in members for place in one.assigned)
        assert max(owners.values(), default=1) == 1, "a partition with two owners"

    def members(self) -> Sequence[DescribedConsumer]:
        return self.group.group.members if self.group.names() else ()


@given(steps)
def test_no_partition_has_two_owners_and_the_group_settles(done: list[tuple[str, str]]) -> None:
    seen = Bystander()
    epoch = 0
    for what, whom in done:
        seen.does(what, whom)
        seen.sees()
        if seen.group.names():
            assert seen.group.group.epoch >= epoch, "the group's epoch went back"
            epoch = seen.group.group.epoch
    alive = list(seen.readers.values())
    for one in alive:
        if one.beats().error_code:
            one.leaves()
            seen.group.passes(45_000)
            one.joins()
    for one in alive:
        if one.beats().error_code:
            one.joins()
    settle(*alive)
    held = Counter(place for one in alive for place in one.places)
    assert set(held.values()) == {1}
    names = {topic: count.num_partitions for topic, count in seen.group.topics.items()}
    assert set(held) == {
        (topic, number) for topic, count in names.items() for number in range(count)
    }
