"""Tasks for fleets, here and in Spark's workers."""

from collections.abc import Iterator, Sequence

from sparklog.errors import CorruptRecordError


def halved(number: int) -> int:
    """A task that cannot do odd numbers, and has a bug with 0."""
    if number % 2:
        raise CorruptRecordError(f"{number} is odd")
    return number * number // number // 2


def digits(number: int) -> Iterator[tuple[int, int]]:
    """A mapper: the number under each of its digits. It has a bug with negative ones."""
    return iter([(int(digit), number) for digit in str(number)])


def smallest(number: int, values: Iterator[int]) -> tuple[int, int]:
    """A reducer that cannot do 9."""
    if number == 9:
        raise CorruptRecordError("nine")
    return number, min(values)


def by_parity(answer: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Sends what `smallest` answers: of an even digit to work 1, of an odd one to work 2."""
    digit, number = answer
    return iter([(1 + digit % 2, number)])


def summed(start: int, pieces: Sequence[int]) -> int:
    """A task that adds its pieces up, and cannot do negative works."""
    if start < 0:
        raise CorruptRecordError(f"{start} is negative")
    return start + sum(pieces)
