"""Partitions and numbers as callers give them: plain tuples, and any integers, also numpy's.

The log has Python's own integers only: no others can be written as JSON.
"""

from collections.abc import Mapping
from typing import TypeVar

from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import UsageError
from sparklog.model import TopicPartition, whole_number

Place = TypeVar("Place", bound=tuple[str, int])
"""A TopicPartition, or a plain (topic, partition)."""


def whole(given: object, what: str) -> int:
    """Return an integer as Python's own; in the error `what` tells where it was given.

    Raises UsageError for anything else.
    """
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
