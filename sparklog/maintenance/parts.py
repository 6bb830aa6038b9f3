"""Divides the work of a job into parts of a limited size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

One = TypeVar("One")


def parts_of(items: Iterable[One], most: int, size: Callable[[One], int]) -> Iterator[list[One]]:
    """Yield the items in order, in parts whose sizes together are at most `most`.

    A larger item is a part of its own. No part is empty.
    """
    part: list[One] = []
    left = most
    for one in items:
        of_one = size(one)
        if part and of_one > left:
            yield part
            part, left = [], most
        part.append(one)
        left -= of_one
    if part:
        yield part
