"""Spark Connect: its client may not see the log dir, so a task plans its reads, and its commits."""

import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from sparklog.errors import SparklogError, SparklogWarning, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.metadata.catalog import Catalog
    from sparklog.storage.files import Files

_ANSWER: Final = "answer binary"


def is_connect(what: DataFrame | SparkSession) -> bool:
    """Whether this belongs to a client of Spark Connect."""
    return type(what).__module__.startswith("pyspark.sql.connect")


def require_classic(df: DataFrame) -> None:
    """Refuse to produce a DataFrame of a Spark Connect client.

    The commit happens in this process, which must see the log dir as the executors see it. Raises
    UsageError.
    """
    if is_connect(df):
        raise UsageError(
            "produce commits in the driver, and a client of Spark Connect has none: write by "
            'df.write.format("sparklog").option("topic", topic).mode("append").save(log_dir), or '
            "run where the driver runs, with a session that has no remote (SPARK_REMOTE unset)"
        )


Plan = TypeVar("Plan")


@dataclass(frozen=True)
class PlanTask(Generic[Plan]):
    """The function of `mapInArrow` that calls `make` with a catalog and `options`."""

    files: "Files"
    options: Mapping[str, Any]
    make: "Callable[[Catalog, Mapping[str, Any]], Plan]"

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield one row, pickled: the answer or error of `make`, and the texts of its warnings."""
        import pyarrow as pa

        from sparklog.record.arrays import binary_of

        for _ in batches:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                plan = self.plan()
            texts = [str(one.message) for one in told if one.category is SparklogWarning]
            answer = binary_of([pickle.dumps((plan, texts))])
            yield pa.RecordBatch.from_arrays([answer], ["answer"])

    def plan(self) -> "Plan | SparklogError":
        """Return the answer of `make`, or the error that it raises."""
        from sparklog.metadata.catalog import Catalog

        try:
            return self.make(Catalog(self.files), self.options)
        except SparklogError as error:
            return error


def planned(
    spark: SparkSession,
    files: "Files",
    options: Mapping[str, Any],
    make: "Callable[[Catalog, Mapping[str, Any]], Plan]",
) -> Plan:
    """Call `make` here or, for a client of Spark Connect, in a task; return its answer.

    It gets the catalog of the log dir, and `options`. Raises and warns as `make` does.
    """
    from sparklog.metadata.catalog import Catalog

    if not is_connect(spark):
        return make(Catalog(files), options)
    task = PlanTask(files, options, make)
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(task, _ANSWER).collect()
    answer: Plan | SparklogError
    answer, texts = pickle.loads(row.answer)  # noqa: S301 - our own task's
    for text in texts:
        warnings.warn(text, SparklogWarning, stacklevel=4)
    if isinstance(answer, SparklogError):
        raise answer
    return answer
