"""Where the parts of a step run: this process, or Spark's tasks. `sparklog.tasks` says how."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from sparklog.errors import SparklogError
from sparklog.tasks import Answer, Work, Workers, answered

Value = TypeVar("Value")
Kept_co = TypeVar("Kept_co", covariant=True)
Seen = TypeVar("Seen")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

Mapper = Callable[[Work], Iterable[tuple[int, Value]]]
"""Takes a work; returns values, each with the number of the reducer that gets it."""
Reducer = Callable[[int, Iterator[Value]], Answer]
"""Takes the number of a reducer and all values sent to it, in no order; returns its answer."""


class Answers(Protocol[Kept_co]):
    """The answers of a shuffle's reducers, kept where they were made until `close`.

    They may be larger than this process: it sees what `view` makes of each, and hands them on.
    """

    def view(self, look: Callable[[Kept_co], Seen]) -> list[Seen | SparklogError]:
        """Return what `look` makes of each answer, in no order; the error of a reducer as it is."""
        ...

    def join(
        self,
        task: Callable[[Work, Sequence[Piece]], Answer],
        works: Sequence[Work],
        send: Callable[[Kept_co], Iterable[tuple[int, Piece]]],
        what: str,
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work and its pieces, in the order of the works.

        `send` cuts an answer into pieces, each with the number of the work that gets it; a work's
        pieces come in no order.
        """
        ...

    def close(self) -> None:
        """Let the answers go."""
        ...


class Fleet(Workers, Protocol):
    """Does works, and sends what comes of them to reducers."""

    def shuffle(
        self,
        mapper: Mapper[Work, Value],
        works: Sequence[Work],
        reducer: Reducer[Value, Answer],
        count: int,
        what: str,
    ) -> Answers[Answer]:
        """Send what the mapper makes of each work to `count` reducers; keep their answers.

        A reducer that gets no value is not called and has no answer. An error of a mapper is
        raised, at the latest by `view`: one that must not end the job is sent as a value.
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
    ) -> Answers[Answer]:
        """See `Fleet.shuffle`."""
        del what
        sent: dict[int, list[Value]] = defaultdict(list)
        for work in works:
            for number, value in mapper(work):
                sent[number % count].append(value)
        return _LocalAnswers(
            [answered(lambda one: reducer(one, iter(sent[one])), number) for number in sorted(sent)]
        )


@dataclass(frozen=True, slots=True)
class _LocalAnswers(Generic[Answer]):
    """Answers in this process."""

    answers: Sequence[Answer | SparklogError]

    def view(self, look: Callable[[Answer], Seen]) -> list[Seen | SparklogError]:
        """See `Answers.view`."""
        return [one if isinstance(one, SparklogError) else look(one) for one in self.answers]

    def join(
        self,
        task: Callable[[Work, Sequence[Piece]], Result],
        works: Sequence[Work],
        send: Callable[[Answer], Iterable[tuple[int, Piece]]],
        what: str,
    ) -> list[Result | SparklogError]:
        """See `Answers.join`."""
        del what
        sent: dict[int, list[Piece]] = defaultdict(list)
        for answer in self.answers:
            if not isinstance(answer, SparklogError):
                for number, piece in send(answer):
                    sent[number].append(piece)
        return [answered(partial(task, work), sent[number]) for number, work in enumerate(works)]

    def close(self) -> None:
        """See `Answers.close`."""
