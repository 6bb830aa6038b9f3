"""Where partitions are imported: threads of this process, unless the caller has other workers."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from sparklog.errors import SparklogError
from sparklog.tasks import Answer, Work, answered

Advance = Callable[[int], None]
Bar = Callable[[str, int], AbstractContextManager[Advance]]
"""A progress bar of a title and a number of works; while it is open, it is told how many more are
done."""


@contextmanager
def no_bar(what: str, count: int) -> Iterator[Advance]:
    """Show nothing."""
    del what, count
    yield lambda _: None


class Threads:
    """Does works in threads of this process: `count` of them, None for one per core."""

    def __init__(self, count: int | None = None, bar: Bar = no_bar) -> None:
        self._count = count or os.cpu_count()
        self._bar = bar

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """See `Workers.map`."""
        with self._bar(what, len(works)) as advance, ThreadPoolExecutor(self._count) as pool:

            def done(work: Work) -> Answer | SparklogError:
                try:
                    return answered(task, work)
                finally:
                    advance(1)

            return list(pool.map(done, works))
