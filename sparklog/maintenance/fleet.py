"""Where the parts of a step run: this process, or Spark's tasks. `sparklog.tasks` says how."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from sparklog.errors import SparklogError
from sparklog.tasks import Answer, Work, Workers, answered

Value = TypeVar("Value")

Mapper = Callable[[Work], Iterable[tuple[int, Value]]]
"""Takes a work; returns values, each with the number of the reducer that gets it."""
Reducer = Callable[[int, Iterator[Value]], Answer]
"""Takes the number of a reducer and all values sent to it, in no order; returns its answer."""


class Fleet(Workers, Protocol):
    """Does works, and sends what comes of them to reducers."""

    def shuffle(
        self,
        mapper: Mapper[Work, Value],
        works: Sequence[Work],
        reducer: Reducer[Value, Answer],
        count: int,
        what: str,
    ) -> list[Answer | SparklogError]:
        """Send what the mapper makes of each work to `count` reducers; return their answers.

        A reducer that gets no value is not called and has no answer, so the place of an answer does
        not tell its reducer. An error of a mapper is raised: one that must not end the job is sent
        as a value.
        """
        ...


class LocalFleet:
    """Runs everything here, one after the other: for small logs, and the specification."""

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """See `Workers.map`."""
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
        """See `Fleet.shuffle`."""
        del what
        sent: dict[int, list[Value]] = defaultdict(list)
        for work in works:
            for number, value in mapper(work):
                sent[number % count].append(value)
        return [
            answered(lambda one: reducer(one, iter(sent[one])), number) for number in sorted(sent)
        ]
