"""A job's tasks as Spark tasks, with a progress bar on a terminal.

The session is started with the first task: a job that finds nothing to do, or that only commits,
never waits for a JVM.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import Any, Final, Generic, NamedTuple

from pyspark import RDD, StorageLevel
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from sparklog.errors import SparklogError
from sparklog.fleet import (
    Answer,
    Answers,
    LocalFleet,
    Mapper,
    Piece,
    Reducer,
    Result,
    Seen,
    Value,
    Work,
    answered,
)
from sparklog.maintenance.progress import progress_bar
from sparklog.spark.job_accumulator import job_accumulator

TASKS_MAX: Final = 1000
"""Beyond this many works some share a task: a task costs the driver milliseconds."""


class SparkFleet:
    """A `Fleet` that runs works as Spark tasks. `session` is called before the first task runs.

    `pool` is the pool of Spark's fair scheduler for the tasks; its name may be new.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        *,
        is_quiet: bool = False,
        pool: str | None = None,
    ) -> None:
        self._session = session
        self._is_quiet = is_quiet
        self._pool = pool

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        if not works:
            return []
        with progress_bar(what, len(works), is_quiet=self._is_quiet) as advance:
            spread = self._spread(works)
            with _counter(spread, advance) as counter:
                done: list[Answer | SparklogError] = spread.mapPartitions(
                    partial(_answers, task, counter)
                ).collect()
        return done

    def shuffle(
        self,
        mapper: Mapper[Work, Value],
        works: Sequence[Work],
        reducer: Reducer[Value, Answer],
        count: int,
        what: str,
    ) -> Answers[Answer]:
        if not works:
            return LocalFleet().shuffle(mapper, works, reducer, count, what)
        with progress_bar(what, len(works), is_quiet=self._is_quiet) as advance:
            spread = self._spread(works)
            with _counter(spread, advance) as counter:
                sent = spread.mapPartitions(partial(_values, mapper, counter))
                reduced = sent.partitionBy(count, _same).mapPartitionsWithIndex(
                    partial(_reduced, reducer)
                )
                kept = reduced.persist(StorageLevel.DISK_ONLY)
                # The JVM counts; an action of PySpark would send every answer to a second worker.
                kept._jrdd.count()  # noqa: SLF001 - no public call reads none of an RDD
        return _SparkAnswers(kept, self._spread, is_quiet=self._is_quiet)

    def _spread(self, works: Sequence[Work]) -> "RDD[Work]":
        context = self._session().sparkContext
        if self._pool is not None:
            context.setLocalProperty("spark.scheduler.pool", self._pool)  # of this thread
        return context.parallelize(works, min(len(works), TASKS_MAX))


class _SparkAnswers(Generic[Answer]):
    """Answers on the disks of Spark's executors; Spark computes lost answers again.

    `spread` makes an RDD of works.
    """

    def __init__(
        self,
        answers: "RDD[Answer | SparklogError]",
        spread: Callable[[Sequence[Any]], "RDD[Any]"],
        *,
        is_quiet: bool,
    ) -> None:
        self._answers = answers
        self._spread = spread
        self._is_quiet = is_quiet

    def view(self, look: Callable[[Answer], Seen]) -> list[Seen | SparklogError]:
        seen: list[Seen | SparklogError] = self._answers.map(partial(_looked, look)).collect()
        return seen

    def join(
        self,
        task: Callable[[Work, Sequence[Piece]], Result],
        works: Sequence[Work],
        send: Callable[[Answer], Iterable[tuple[int, Piece]]],
        what: str,
    ) -> list[Result | SparklogError]:
        if not works:
            return []
        with progress_bar(what, len(works), is_quiet=self._is_quiet) as advance:
            spread = self._spread([(number, _Work(work)) for number, work in enumerate(works)])
            pieces = self._answers.mapPartitions(partial(_pieces, send))
            joined = spread.union(pieces).partitionBy(min(len(works), TASKS_MAX), _same)
            with _counter(spread, advance) as counter:
                done: dict[int, Result | SparklogError] = joined.mapPartitions(
                    partial(_joined, task, counter)
                ).collectAsMap()
        return [done[number] for number in range(len(works))]

    def close(self) -> None:
        self._answers.unpersist()


class _Work(NamedTuple):
    """A work among pieces."""

    work: Any


def _counter(
    spread: "RDD[Any]", moved: Callable[[int], None]
) -> AbstractContextManager[Accumulator[int]]:
    """Make the accumulator to which a task adds 1 for each work done."""
    return job_accumulator(spread.context, 0, _Moved(moved))


class _Moved(AccumulatorParam[int]):
    """Sums, and in the driver calls `moved` with the sum of each task that ends."""

    def __init__(self, moved: Callable[[int], None] | None = None) -> None:
        self._moved = moved

    def __reduce__(self) -> tuple[Any, ...]:
        return _Moved, ()

    def zero(self, value: int) -> int:  # noqa: ARG002 - Spark's
        """Return 0."""
        return 0

    def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802 - Spark's name
        """Return the sum."""
        if self._moved is not None:
            self._moved(value2)
        return value1 + value2


def _answers(
    task: Callable[[Work], Answer], done: Any, works: Iterator[Work]
) -> Iterator[Answer | SparklogError]:
    for work in works:
        yield answered(task, work)
        done.add(1)


def _values(
    mapper: Mapper[Work, Value], done: Any, works: Iterator[Work]
) -> Iterator[tuple[int, Value]]:
    for work in works:
        yield from mapper(work)
        done.add(1)


def _same(number: int) -> int:
    return number


def _looked(look: Callable[[Answer], Seen], answer: Answer | SparklogError) -> Seen | SparklogError:
    return answer if isinstance(answer, SparklogError) else look(answer)


def _pieces(
    send: Callable[[Answer], Iterable[tuple[int, Piece]]], answers: Iterator[Answer | SparklogError]
) -> Iterator[tuple[int, Piece]]:
    for answer in answers:
        if not isinstance(answer, SparklogError):
            yield from send(answer)


def _joined(
    task: Callable[[Work, Sequence[Piece]], Result],
    done: Any,
    pairs: Iterator[tuple[int, _Work | Piece]],
) -> Iterator[tuple[int, Result | SparklogError]]:
    """Run the works that are among the pairs, each with the pieces of its number."""
    works: dict[int, Any] = {}
    pieces: dict[int, list[Piece]] = defaultdict(list)
    for number, value in pairs:
        if isinstance(value, _Work):
            works[number] = value.work
        else:
            pieces[number].append(value)
    for number, work in works.items():
        yield number, answered(partial(task, work), pieces.pop(number, []))
        done.add(1)


def _reduced(
    reducer: Reducer[Value, Answer], number: int, pairs: Iterable[tuple[int, Value]]
) -> Iterator[Answer | SparklogError]:
    values = (value for _, value in pairs)
    first = next(values, None)
    if first is not None:
        yield answered(lambda one: reducer(one, chain([first], values)), number)
