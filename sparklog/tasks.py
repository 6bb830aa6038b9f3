"""One task over many works, wherever they are done: here, in threads, or as tasks of Spark.

A task is a function of one work, and picklable where works may go to another process. A work that
fails with an error of sparklog's own is answered by that error, so that one damaged segment stops
its own partition and nothing else. Any other error is raised.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sparklog.errors import SparklogError

Work = TypeVar("Work")
Answer = TypeVar("Answer")


class Workers(Protocol):
    """Does works, several at a time where it can."""

    def map(
        self, task: Callable[[Work], Answer], works: Sequence[Work], what: str
    ) -> list[Answer | SparklogError]:
        """Return the task's answer to each work, in the order of the works.

        `what` is the title of a progress bar. Raises an error that is not a SparklogError.
        """
        ...


def answered(task: Callable[[Work], Answer], work: Work) -> Answer | SparklogError:
    """Return the task's answer, or the SparklogError that it raises.

    The error comes without traceback and cause: their frames hold what was read and decompressed.
    """
    try:
        return task(work)
    except SparklogError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
