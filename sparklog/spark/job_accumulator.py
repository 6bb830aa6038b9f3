"""An accumulator of one job, which the driver forgets when the job has ended.

PySpark keeps each accumulator until the driver ends: one that produces, or runs jobs, for months
would fill its memory. PySpark leaves out the updates of an accumulator that it does not have.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry

Sum = TypeVar("Sum")


@contextmanager
def job_accumulator(
    context: SparkContext, zero: Sum, param: AccumulatorParam[Sum]
) -> Iterator[Accumulator[Sum]]:
    """Make an accumulator for the tasks of the block; it is dropped when the block ends."""
    made = context.accumulator(zero, param)
    try:
        yield made
    finally:
        _accumulatorRegistry.pop(made.aid, None)
