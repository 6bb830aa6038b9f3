"""The writers of the data source: rows to segment files in the tasks, one commit in the driver.

A stream's micro-batch is committed once, although processes are killed and tasks run again: its
query id and batch id are in the same commit as its segments.

`abort` deletes nothing, because Spark also calls it after a commit that may have landed. Vacuum
deletes files that no row names.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from sparklog.errors import SparklogError, SparklogWarning, UsageError
from sparklog.spark.writing.produce_result import ProduceResult
from sparklog.spark.writing.write_job import FILES_MAX, WriteJob
from sparklog.spark.writing.write_task import TopicSegments, task_number

STREAM: Final = "STREAM"
"""The operation of a micro-batch's commit."""

_QUERY_ID: Final = "sql.streaming.queryId"
"""Spark's local property with the id that a streaming query keeps over restarts."""


@dataclass
class Written(WriterCommitMessage):
    """The result of one task, by topic: everything that the driver needs."""

    task: int
    segments: dict[str, TopicSegments]
    query_id: str | None


class RowWriter:
    """The work of a task on its rows, in a batch and in a stream."""

    def __init__(self, job: WriteJob, columns: Sequence[str], *, is_done: bool = False) -> None:
        """`is_done`: the write has landed already, so no row is written."""
        self._job = job
        self._columns = list(columns)
        self._is_done = is_done

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows' columns of the job to segment files. Raises errors of sparklog.errors."""
        rows = () if self._is_done else (batch.select(self._columns) for batch in iterator)
        result = self._job.task().write(iter(rows))
        if isinstance(result, SparklogError):
            raise result
        context = TaskContext.get()
        query_id = context.getLocalProperty(_QUERY_ID) if context else None
        return Written(task_number(), result, query_id)


class BatchWriter(RowWriter, DataSourceArrowWriter):
    """Writes one DataFrame."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible, in one commit."""
        segments = ((one.task, one.segments) for one in _written(messages))
        self._job.commit(self._job.catalog(), segments)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave everything to vacuum."""


class StreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query. Spark makes a new one for each batch's commit."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the micro-batch visible, as its tasks planned it, unless it is visible already.

        Raises UsageError if a topic has a later micro-batch of the query; then nothing is visible.
        """
        written = [one for one in _written(messages) if one.segments]
        if not written:
            return
        query_id = written[0].query_id
        if query_id is None:
            raise UsageError(
                f"Spark did not tell the tasks of micro-batch {batchId} the query's id, so that it "
                f"could not be committed once only: nothing was committed"
            )
        plans = {name: part.plan for one in written for name, part in one.segments.items()}
        job = replace(
            self._job,
            plans=plans,
            topic=None,
            app_id=query_id,
            version=batchId,
            is_micro_batch=True,
        )
        segments = ((one.task, one.segments) for one in written)
        told = {"queryId": query_id, "batchId": str(batchId)}
        result = job.commit(job.catalog(), segments, operation=STREAM, parameters=told)
        _warn_of_left_out(result, written, told)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave everything to vacuum."""


def _warn_of_left_out(
    result: ProduceResult, written: Sequence[Written], told: Mapping[str, str]
) -> None:
    """Warn if a micro-batch that ran again has more records than the one that has landed."""
    counts = Counter[str]()
    for one in written:
        for name, part in one.segments.items():
            counts[name] += sum(entry.record_count or 0 for entry in part.entries)
    for place, landed in result.ranges.items():
        counts[place.topic] -= landed.span
    for name in sorted(result.replayed):
        if counts[name] > 0:
            warnings.warn(
                f"topic {name!r} has micro-batch {told['batchId']} of query {told['queryId']} "
                f"already, with {counts[name]} records less: it stays as it is. If the checkpoint "
                f"was rewound or copied, the others are lost: start a new one",
                SparklogWarning,
                stacklevel=2,
            )


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Return the segments of all tasks; warns if they are very many."""
    written = [message for message in messages if isinstance(message, Written)]
    files = sum(len(part.entries) for one in written for part in one.segments.values())
    if files > FILES_MAX:
        warnings.warn(
            f"the write made {files} segments: with df.repartition(…) before it, by key or "
            f'partition, or with sparklog.spark.produce(…, clustered="true"), there would be fewer',
            SparklogWarning,
            stacklevel=3,
        )
    return written
