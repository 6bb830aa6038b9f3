"""Where partitions are imported: threads of this process, or whoever else takes works.

A work that fails with an error of sparklog's own is answered by that error.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from sparklog.errors import SparklogError

Work = TypeVar("Work")
Answer = TypeVar("Answer")

Advance = Callable[[int], None]
Bar = Callable[[str, int], AbstractContextManager[Advance]]
"""What is done, and to how many works: while it is open, it is told of how many more are done."""


class Workers(Protocol):
    """Runs tasks side by side; sparklog.spark.jobs.fleet.SparkFleet is one."""

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work, in the order of the works."""
        ...


@contextmanager
def no_bar(what: str, count: int) -> Iterator[Advance]:
    """Show nothing."""
    del what, count
    yield lambda _: None


class Threads:
    """Runs tasks in threads of this process, one a core unless told otherwise."""

    def __init__(self, count: int | None = None, bar: Bar = no_bar) -> None:
        self._count = count or os.cpu_count()
        self._bar = bar

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work, in the order of the works."""
        with self._bar(what, len(works)) as advance, ThreadPoolExecutor(self._count) as pool:

            def answer(work: Work) -> Answer | SparklogError:
                try:
                    return task(work)
                except SparklogError as error:
                    return _alone(error)
                finally:
                    advance(1)

            return list(pool.map(answer, works))


def _alone(error: SparklogError) -> SparklogError:
    """An error without the frames it came through: they hold what was decompressed."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
