"""One Spark task of a produce: Arrow batches in, segment files out.

A task returns one row: its number, and either the segments it wrote or the error of an invalid row.
It returns an error instead of raising it: Spark would try the same rows again in vain, and would
wrap the error in pages of traceback. A retriable error (of the storage) is raised while Spark has
tries left: the next try may run on another machine.
"""

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from sparklog.clock import SystemClock
from sparklog.errors import InvalidRecordError, SparklogError, UnknownTopicError
from sparklog.log.names import check_not_internal
from sparklog.log_writer import NO_OFFSET, SharedSegment, WritePlan, counted_from
from sparklog.model import SegmentEntry
from sparklog.record.arrays import array_of, binary_of, numbers_of
from sparklog.storage.files import Files

if TYPE_CHECKING:
    from sparklog.record.rows import RecordColumns

RESULT_SCHEMA: Final = "task int, result binary"
_RESULT: Final = pa.schema([("task", pa.int32()), ("result", pa.binary())])

_FEED_BYTES_MAX: Final = 32 * 1024 * 1024
_BATCHES_A_FEED: Final = 4


class TopicSegments(NamedTuple):
    """The segments that a task wrote of one topic, and the plan in its final form."""

    plan: WritePlan
    entries: list[SegmentEntry]


TaskResult = dict[str, TopicSegments] | SparklogError
"""Segments by topic, or the error of the task."""


@dataclass(frozen=True)
class WriteTask:
    """The function of `mapInArrow`.

    Without `topic` the column `topic` names the topic of a row. `tries` is the number of times that
    Spark tries a task. `seed` is drawn once for a produce, so that each try of a task chooses the
    same partitions. `errors` takes an error to the driver before all tasks are done.
    """

    files: Files
    plans: Mapping[str, WritePlan]
    topic: str | None
    tries: int = 1
    seed: int = 0
    errors: Accumulator[SparklogError | None] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all batches; yield the one row of RESULT_SCHEMA."""
        context = TaskContext.get()
        number, attempt = task_number(), context.attemptNumber() if context else 0
        result = self.write(batches)
        if isinstance(result, SparklogError) and result.retriable and attempt + 1 < self.tries:
            raise result
        if isinstance(result, SparklogError) and self.errors is not None:
            self.errors.add(result)
        yield pa.RecordBatch.from_arrays(
            [array_of(np.array([number], np.int32)), binary_of([pickle.dumps(result)])],
            schema=_RESULT,
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        """Write all batches and return the segments by topic, or the error."""
        # The encoder is loaded where rows are written, not where the write is planned.
        from sparklog.log_writer.topic_writer import TopicWriter, bound_memory

        writers: dict[str, TopicWriter] = {}
        shared = SharedSegment(self.files, SystemClock())
        first = 0
        try:
            for batch in fed(batches, self._feed_bytes()):
                for topic, rows in by_topic(batch, self.topic, first):
                    plan = self.plan(topic)
                    if topic not in writers:
                        seed = self.seed + task_number()
                        writers[topic] = TopicWriter(self.files, plan, SystemClock(), seed, shared)
                    with counted_from(_place(first, None if rows is batch else topic)):
                        columns = record_columns(rows, plan.now_ms)
                        writers[topic].write(columns, explicit_partition(rows))
                bound_memory(writers.values())
                first += batch.num_rows
            written = {
                topic: TopicSegments(writer.plan, writer.close())
                for topic, writer in writers.items()
            }
            shared.close()
            return written
        except BaseException as error:
            for writer in writers.values():
                writer.abort()
            shared.abort()
            if isinstance(error, SparklogError):
                return error
            raise

    def _feed_bytes(self) -> int:
        """Return the bytes to encode at once: some full batches of each partition of all topics."""
        widths = (
            plan.topic.num_partitions * plan.options.batch_size for plan in self.plans.values()
        )
        return min(sum(widths) * _BATCHES_A_FEED, _FEED_BYTES_MAX)

    def plan(self, topic: str) -> WritePlan:
        """Return a topic's plan. Raises UnknownTopicError, InvalidTopicError."""
        if topic not in self.plans:
            check_not_internal(topic)
            raise UnknownTopicError(
                f"unknown topic {topic!r} in column topic: create it first (topics are not made "
                f"on first use)",
                topic=topic,
            )
        return self.plans[topic]


def _place(first: int, topic: str | None) -> str:
    """Return the place of a batch's row 0. `topic` is given if only its rows are counted."""
    those = "" if topic is None else f", those of topic {topic!r} alone"
    return f"row {first} of Spark partition {task_number()}{those}"


def by_topic(
    batch: pa.RecordBatch, topic: str | None, first: int = 0
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (topic, its rows); all rows are `topic`'s unless it is None.

    Raises InvalidRecordError for a row without topic; `first` is the number of the first row.
    """
    if topic is not None:
        yield topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise InvalidRecordError(
            f"null topic in row {first + pc.index(topics.is_null(), True).as_py()} of Spark "
            f"partition {task_number()}: every record needs a topic, in the column topic or by the "
            f"option topic"
        )
    found = topics.dictionary_encode()
    names = found.dictionary.to_pylist()
    if len(names) <= 1:
        yield from ((name, batch) for name in names)
        return
    # Sorted once: a filter for each of a thousand topics would look at all rows a thousand times.
    numbers = numbers_of(found.indices)
    order = np.argsort(numbers, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(numbers))[:-1])
    for name, rows in zip(names, parts, strict=True):
        yield name, batch.take(array_of(rows))


def fed(batches: Iterator[pa.RecordBatch], at_least: int) -> Iterator[pa.RecordBatch]:
    """Join small batches until they have `at_least` bytes; larger ones pass as they are."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        size += batch.nbytes
        if size >= at_least:
            yield _joined(held)
            held, size = [], 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def record_columns(batch: pa.RecordBatch, now_ms: int) -> "RecordColumns":
    """Return a batch's columns as records; a record without a timestamp gets `now_ms`."""
    from sparklog.record.rows import RecordColumns

    names = batch.schema.names
    nulls = pa.nulls(batch.num_rows, pa.binary())
    return RecordColumns(
        key=batch.column("key") if "key" in names else nulls,
        value=batch.column("value"),
        timestamp=_milliseconds(batch, now_ms),
        headers=batch.column("headers") if "headers" in names else None,
        offset=_offsets(batch.column("offset")) if "offset" in names else None,
    )


def _offsets(column: pa.Array) -> NDArray[np.int64]:
    values: NDArray[np.int64] = numbers_of(column.fill_null(NO_OFFSET))
    return values


def _milliseconds(batch: pa.RecordBatch, now_ms: int) -> NDArray[np.int64]:
    if "timestamp" not in batch.schema.names:
        return np.full(batch.num_rows, now_ms, np.int64)
    column = batch.column("timestamp")
    is_time = pa.types.is_timestamp(column.type)
    numbers = column.cast(pa.int64())
    if column.null_count:
        numbers = numbers.fill_null(now_ms * 1000 if is_time else now_ms)
    values: NDArray[np.int64] = numbers_of(numbers)
    return values // 1000 if is_time else values


def task_number() -> int:
    """Return the number of the Spark task that runs here, 0 outside of one."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def explicit_partition(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the column `partition`; None without one."""
    return batch.column("partition") if "partition" in batch.schema.names else None
