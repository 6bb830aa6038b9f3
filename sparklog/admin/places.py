"""Turns the arguments of AdminClient into partitions and ints.

A caller may give plain tuples, and integers of any type, also numpy's. The log needs Python's own
ints: JSON has no others.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import UsageError
from sparklog.model import TopicPartition, whole_number

Place = TypeVar("Place", bound=tuple[str, int])
"""A TopicPartition, or a plain (topic, partition)."""
Name = TypeVar("Name", bound=str | bytes)


def several(given: Iterable[Name]) -> Iterable[Name]:
    """Return the names or keys that a call is for.

    Raises UsageError for a single one, which would count as the list of its letters.
    """
    if isinstance(given, str | bytes):
        raise UsageError(f"{given!r} is a single one: give a list, [{given!r}]")
    return given


def whole(given: object, what: str) -> int:
    """Return an integer as an int. Raises UsageError for anything else; it begins with `what`."""
    if (number := whole_number(given)) is None:
        raise UsageError(f"{what}: {given!r} is no integer")
    return number


def place_of(given: tuple[str, int]) -> TopicPartition:
    """Return a partition. Raises UsageError."""
    topic, partition = given
    return TopicPartition(topic, whole(partition, f"topic {topic!r}, partition"))


def by_place(given: Mapping[Place, int]) -> dict[TopicPartition, int]:
    """Return the number of each partition. Raises UsageError."""
    return {
        place_of(place): whole(number, f"topic {place[0]!r}, partition {place[1]}")
        for place, number in given.items()
    }


def committed(
    given: Mapping[Place, int | CommittedOffset],
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offset to commit of each partition. Raises UsageError."""
    found: dict[TopicPartition, CommittedOffset] = {}
    for place, one in given.items():
        offset = one if isinstance(one, CommittedOffset) else CommittedOffset(one)
        number = whole(offset.offset, f"topic {place[0]!r}, partition {place[1]}")
        found[place_of(place)] = offset._replace(offset=number)
    return found
