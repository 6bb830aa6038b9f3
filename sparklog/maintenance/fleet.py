"""Where the parts of a step run: this process, or Spark's tasks.

A task is a picklable function of one work. A work that fails with an error of sparklog's own is
answered by that error, so that one damaged segment stops its own partition and nothing else.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from sparklog.errors import SparklogError

Work = TypeVar("Work")
Answer = TypeVar("Answer")
Value = TypeVar("Value")

Mapper = Callable[[Work], Iterable[tuple[int, Value]]]
"""A work to values, each under the number of the reducer that gets it."""
Reducer = Callable[[int, Iterator[Value]], Answer]
"""The number of a reducer and all values sent to it, in no order, to an answer."""


class Fleet(Protocol):
    """Runs tasks, in parallel where it can."""

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work, in the order of the works.

        `what` names the doing for a progress bar. An error that is not a SparklogError is raised.
        """
        ...

    def shuffle(
        self,
        mapper: Mapper[Work, Value],
        works: Sequence[Work],
        reducer: Reducer[Value, Answer],
        count: int,
        what: str,
    ) -> list[Answer | SparklogError]:
        """Send what the mapper makes of each work to `count` reducers; return their answers.

        A reducer without a value is not asked: its answer is left out, so answers are not in step
        with numbers. An error of a mapper is raised: what it can bear it sends as a value.
        """
        ...


class LocalFleet:
    """Runs everything here, one after the other: for small logs, and the specification."""

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work."""
        del what
        return [answered(task, work) for work in works]

    def shuffle(
        self,
        mapper: Mapper[Work, Value],
        works: Sequence[Work],
        reducer: Reducer[Value, Answer],
        count: int,
        what: str,
    ) -> list[Answer | SparklogError]:
        """Return the answers of the reducers that got values."""
        del what
        sent: dict[int, list[Value]] = defaultdict(list)
        for work in works:
            for number, value in mapper(work):
                sent[number % count].append(value)
        return [
            answered(lambda one: reducer(one, iter(sent[one])), number) for number in sorted(sent)
        ]


def answered(task: Callable[[Work], Answer], work: Work) -> Answer | SparklogError:
    """Return the task's answer, or the SparklogError it raises."""
    try:
        return task(work)
    except SparklogError as error:
        return error
