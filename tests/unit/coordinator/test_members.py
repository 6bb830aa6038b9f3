"""The protocols that all members of a classic group support."""

from itertools import count

from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.coordinator.classic.member import Member
from sparklog.coordinator.classic.members import Members
from sparklog.coordinator.requests import Protocol

NAMES = st.lists(st.sampled_from("abcd"), max_size=5)
IDS = st.sampled_from(["ada", "bob", "eve"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "support", "replace", "remove"]), IDS, NAMES), max_size=12
)

Steps = list[tuple[str, str, list[str]]]
NEW_IDS = count()
GONE: Steps = [
    ("remove", "ada", []),
    ("add", "ada", ["a"]),
    ("replace", "ada", []),
    ("add", "bob", ["a"]),
    ("remove", "ada", []),
]


def protocols(names: list[str]) -> tuple[Protocol, ...]:
    return tuple(Protocol(name, b"") for name in names)


def member(name: str, names: list[str]) -> Member:
    return Member(name, name, "", "", 1, 1, protocols(names))


def take(members: Members, step: str, instance_id: str, names: list[str]) -> None:
    """Take a step, if it can be taken, with the member of an instance id."""
    found = members.get(members.static_id(instance_id) or "")
    if step == "add":
        members.add(member(instance_id, names))
    elif found is not None and step == "support":
        members.support(found, protocols(names))
    elif found is not None and step == "replace":
        members.replace(instance_id, f"{instance_id}-{next(NEW_IDS)}")  # an id is given once
    elif found is not None:
        members.remove(found)


def naive(members: Members) -> frozenset[str]:
    names = [frozenset(protocol.name for protocol in one.protocols) for one in members]
    return frozenset.intersection(*names) if names else frozenset()


class TestCandidates:
    @given(STEPS)
    @example([("add", "ada", ["a", "a", "b"]), ("add", "bob", ["b"]), ("support", "bob", ["a"])])
    @example([("add", "ada", ["a"]), ("add", "ada", ["b"]), ("add", "bob", ["b"])])
    @example(GONE)
    def test_are_what_all_members_support_after_each_step(self, steps: Steps) -> None:
        """Goal: counted supporters are right. Method: members come, change and go; count anew."""
        members = Members()
        for step in steps:
            take(members, *step)
            assert members.candidates == naive(members)

    def test_that_nobody_supports_any_more_are_forgotten(self) -> None:
        members, ada = Members(), member("ada", ["a", "b"])
        members.add(ada)
        members.support(ada, protocols(["b"]))
        assert members._supporters == {"b": 1}
        members.remove(ada)
        assert members._supporters == {}
