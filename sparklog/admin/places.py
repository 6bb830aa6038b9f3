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
        raise UsageError(f"{given!r} is one text, and would count as its letters: give a list")
    return given


def whole(given: object, what: str) -> int:
    """Return an integer as an int. Raises UsageError for anything else; it begins with `what`."""
    if (number := whole_number(given)) is None:
        raise UsageError(f"{what}: {given!r} is no integer")
    return number


def place_of(given: tuple[str, int]) -> TopicPartition:
    """Return a partition. Raises UsageError."""
    pair: object = given
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise UsageError(f"{given!r} is no partition: give (topic, partition)")
    topic, partition = given
    return TopicPartition(topic, whole(partition, f"topic {topic!r}, partition"))


def by_place(given: Mapping[Place, int]) -> dict[TopicPartition, int]:
    """Return the number of each partition. Raises UsageError."""
    return {(found := place_of(place)): _at(found, number) for place, number in given.items()}


def committed(
    given: Mapping[Place, int | CommittedOffset],
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offset to commit of each partition. Raises UsageError."""
    found: dict[TopicPartition, CommittedOffset] = {}
    for place, one in given.items():
        partition = place_of(place)
        offset = one if isinstance(one, CommittedOffset) else CommittedOffset(one)
        found[partition] = offset._replace(offset=_at(partition, offset.offset))
    return found


def _at(place: TopicPartition, given: object) -> int:
    return whole(given, f"topic {place.topic!r}, partition {place.partition}")
