"""A fleet runs one function, the task, for each of many works: in this process, or on Spark.

A work is the task's argument, such as one partition to verify. Both must be picklable, because
Spark runs them in other processes. If a task raises a SparklogError, this error is the answer to
its work: a damaged segment stops only its own partition. Any other error is raised.

`LocalFleet` works in this process, `sparklog.spark.jobs.fleet.SparkFleet` on Spark's executors.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from sparklog.errors import SparklogError
from sparklog.garbage import without_frames

Work = TypeVar("Work")
Answer = TypeVar("Answer")
Value = TypeVar("Value")
Kept_co = TypeVar("Kept_co", covariant=True)
Seen = TypeVar("Seen")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

Mapper = Callable[[Work], Iterable[tuple[int, Value]]]
"""Takes a work; returns pairs (number of the reducer that gets the value, value)."""
Reducer = Callable[[int, Iterator[Value]], Answer]
"""Takes the number of a reducer and all values sent to it, in no order; returns its answer."""
Advance = Callable[[int], None]
Bar = Callable[[str, int], AbstractContextManager[Advance]]
"""A progress bar; takes a title and the number of works. It yields a function to call with the
number of works done since its last call."""


class Answers(Protocol[Kept_co]):
    """The answers of a shuffle's reducers, kept in the reducers' processes until `close`.

    They may be too large for this process. So it gets only the results of `view`, and `join` sends
    the answers directly to other tasks.
    """

    def view(self, look: Callable[[Kept_co], Seen]) -> list[Seen | SparklogError]:
        """Return `look(answer)` for each answer, in no order; for a failed reducer its error."""
        ...

    def join(
        self,
        task: Callable[[Work, Sequence[Piece]], Answer],
        works: Sequence[Work],
        send: Callable[[Kept_co], Iterable[tuple[int, Piece]]],
        what: str,
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work with its pieces, in the order of the works.

        `send` cuts an answer into pieces, each with the number of the work that gets it. A work's
        pieces come in no order. `what` is the title of a progress bar.
        """
        ...

    def close(self) -> None:
        """Give the memory or the disk space of the answers back."""
        ...


class Fleet(Protocol):
    """Runs tasks, several at a time if it can. `what` is the title of a progress bar."""

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work, in the order of the works.

        Raises an error that is not a SparklogError.
        """
        ...

    def shuffle(
        self,
        mapper: Mapper[Work, Value],
        works: Sequence[Work],
        reducer: Reducer[Value, Answer],
        count: int,
        what: str,
    ) -> Answers[Answer]:
        """Send the mapper's values for each work to `count` reducers; keep their answers.

        A reducer that gets no value is not called and has no answer. The error of a mapper is
        raised here or by `view`. A mapper whose error must not end the job sends it as a value.
        """
        ...


def answered(task: Callable[[Work], Answer], work: Work) -> Answer | SparklogError:
    """Return the task's answer, or the SparklogError that it raises.

    The error has no frames: these would keep the bytes that were read and decompressed.
    """
    try:
        return task(work)
    except SparklogError as error:
        return without_frames(error)


@contextmanager
def no_bar(what: str, count: int) -> Iterator[Advance]:
    """Show nothing."""
    del what, count
    yield lambda _: None


class LocalFleet:
    """Runs tasks in this process, in `threads` threads; None is a thread for each core.

    With one thread the calling thread runs the tasks, one after another. A shuffle always runs in
    the calling thread. It is for small logs; SparkFleet's shuffle must give the same answers.
    """

    def __init__(self, threads: int | None = 1, bar: Bar = no_bar) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._bar = bar

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """See `Fleet.map`."""
        with self._bar(what, len(works)) as advance:

            def done(work: Work) -> Answer | SparklogError:
                try:
                    return answered(task, work)
                finally:
                    advance(1)

            if self._threads == 1:
                return [done(work) for work in works]
            with ThreadPoolExecutor(self._threads) as pool:
                return list(pool.map(done, works))

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
