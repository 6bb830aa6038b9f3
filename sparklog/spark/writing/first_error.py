"""The first error of a task ends the job: the other tasks would write in vain.

The driver gets a task's result only when all tasks are done, perhaps hours after the first bad row.
An accumulator reaches it as soon as the task ends.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from sparklog.errors import SparklogError
from sparklog.spark.job_accumulator import job_accumulator


class FirstErrorParam(AccumulatorParam[SparklogError | None]):
    """Keeps the first error added. In the driver it then calls `noticed`, in tasks it does not."""

    def __init__(self, noticed: Callable[[], Any] = lambda: None) -> None:
        self._noticed = noticed

    def __reduce__(self) -> tuple[Any, ...]:
        return FirstErrorParam, ()

    def zero(self, value: SparklogError | None) -> SparklogError | None:  # noqa: ARG002 - Spark's
        """Return no error."""
        return None

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: SparklogError | None, value2: SparklogError | None
    ) -> SparklogError | None:
        """Return the first error, if there is one."""
        if value1 is None and value2 is not None:
            self._noticed()
        return value2 if value1 is None else value1


@contextmanager
def first_error(context: SparkContext) -> Iterator[Accumulator[SparklogError | None]]:
    """Run the jobs of the block until the first error of a task, which the block raises as it is.

    Tasks add their errors to the accumulator.
    """
    tag = f"sparklog-{uuid4().hex}"
    param = FirstErrorParam(lambda: context.cancelJobsWithTag(tag))
    with job_accumulator(context, None, param) as found:
        context.addJobTag(tag)
        try:
            yield found
        except Exception:
            if found.value is None:
                raise
            raise found.value from None
        finally:
            context.removeJobTag(tag)
