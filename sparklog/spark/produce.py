"""produce(): a DataFrame to a log, at once visible and with its offsets as the answer.

plan      one snapshot of each topic
write     every Spark task encodes its rows straight into segment files, without a shuffle
commit    one commit a topic gives the offsets, in (task, file) order
answer    the offset range of each partition
"""

import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from sparklog.config.options import PRODUCE_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError, SparklogError, UsageError
from sparklog.log_writer import (
    WriteOptions,
    WritePlan,
    commit_write,
    in_order,
    is_committed,
    plan_write,
    plan_write_to,
)
from sparklog.manifest.catalog import Catalog
from sparklog.model import OffsetRange, TopicPartition
from sparklog.spark.cluster import clustered
from sparklog.spark.first_error import FirstError
from sparklog.spark.schema import input_columns
from sparklog.spark.session import require_classic
from sparklog.spark.write_task import RESULT_SCHEMA, TaskResult, WriteTask
from sparklog.storage import open_files

_FILES_MAX: Final = 1000
"""Above this many files `clustered=auto` shuffles by partition first."""

_LOCAL_MASTER: Final = re.compile(r"local(\[[^,\]]*(,\s*(\d+)\s*)?\])?")


@dataclass(frozen=True)
class ProduceResult:
    """What a produce got.

    `ranges` holds the offsets of each partition that got records. `replayed` are the topics that
    had this write already (by txnAppId and txnVersion); those in `forgotten` had it so long ago
    that their offsets are no longer known.
    """

    ranges: Mapping[TopicPartition, OffsetRange]
    replayed: frozenset[str] = field(default_factory=frozenset)
    forgotten: frozenset[str] = field(default_factory=frozenset)

    @property
    def count(self) -> int:
        """How many records were written."""
        return sum(got.span for got in self.ranges.values())


def produce(
    df: DataFrame, log_dir: str | PathLike[str], topic: str | None = None, **options: Any
) -> ProduceResult:
    """Write a DataFrame's rows as records; return the offset range of each partition.

    Columns are those of Spark's Kafka sink, and `timestamp` (see sparklog.spark.schema). Options
    are Kafka's (sparklog.config.options): `compression.type`, `batch.size`, `partitioner`,
    `segment.bytes`, `flush`, `clustered`, `txnAppId` with `txnVersion`, `storage.<NAME>`.

    All partitions of a topic become visible in one commit; several topics one after another, and a
    replay with the same txnAppId and txnVersion finishes what is missing. Raises the errors of
    sparklog.errors, also those of tasks; nothing of a topic is visible then, but for
    CommitOutcomeUnknownError. What the DataFrame itself raises is Spark's.
    """
    _require_batch(df)
    given, storage = parse_options(PRODUCE_OPTIONS, options)
    topic = topic if topic is not None else given["topic"]
    if (given["txnAppId"] is None) != (given["txnVersion"] is None):
        raise InvalidOptionError("options txnAppId and txnVersion go together", option="txnAppId")
    write_options = WriteOptions.of(given)
    columns = input_columns(df.schema, needs_topic=topic is None)
    catalog = Catalog(open_files(fspath(log_dir), storage), flush=write_options.flush)
    task = WriteTask(
        catalog.files,
        _plans(catalog, topic, write_options),
        topic,
        task_tries(df.sparkSession),
        int.from_bytes(os.urandom(6), "big"),
    )
    transaction = (given["txnAppId"], given["txnVersion"])
    # A write that has landed is answered from its receipt: its rows are not even computed.
    is_known = topic is not None and _is_committed(catalog, task.plans[topic], *transaction)
    results = [] if is_known else _write(df.select(*columns), task, given["clustered"])
    return _commit(catalog, task, results, transaction)


def _is_committed(
    catalog: Catalog, plan: WritePlan, app_id: str | None, version: int | None
) -> bool:
    if app_id is None or version is None:
        return False
    return is_committed(catalog.store(plan.topic), app_id, version)


def _require_batch(df: DataFrame) -> None:
    require_classic(df)
    if df.isStreaming:
        raise UsageError(
            "produce takes a batch DataFrame, this one is a stream: produce its batches in "
            "writeStream.foreachBatch, with txnAppId and txnVersion=batch id"
        )


def _plans(catalog: Catalog, topic: str | None, options: WriteOptions) -> dict[str, WritePlan]:
    """Return a plan of every topic that rows may go to."""
    if topic is not None:
        return {topic: plan_write(catalog, topic, options)}
    topics = catalog.topics()
    return {name: plan_write_to(catalog, topics[name], options) for name in topics}


def task_tries(spark: SparkSession) -> int:
    """Return how often Spark tries a task: once on a local master that does not say otherwise."""
    context = spark.sparkContext
    local = _LOCAL_MASTER.fullmatch(context.master or "")
    if local is not None:
        return int(local[3] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def _write(df: DataFrame, task: WriteTask, how: str) -> list[tuple[int, TaskResult]]:
    errors = FirstError(df.sparkSession.sparkContext)
    task = replace(task, errors=errors.accumulator)
    written = df.mapInArrow(task, RESULT_SCHEMA)
    if how == "true" or (how == "auto" and _files_made(df, written, task) > _FILES_MAX):
        written = clustered(df, task).mapInArrow(task, RESULT_SCHEMA)
    rows = errors.run(written.collect)
    return [(row.task, pickle.loads(row.result)) for row in rows]  # noqa: S301 - our own tasks'


def _files_made(df: DataFrame, written: DataFrame, task: WriteTask) -> int:
    """Return about how many segment files `written` makes when every task meets every partition.

    How many tasks an adaptive plan has is known only when the stages before the last one have run:
    they run here, and `written` goes on from where they ended. The topics of the column `topic` are
    counted by a pass over it when it matters.
    """
    widths = {name: plan.topic.num_partitions for name, plan in task.plans.items()}
    tasks = written.rdd.getNumPartitions()
    files = tasks * sum(widths.values())
    if files <= _FILES_MAX or task.topic is not None:
        return files
    found = [row.topic for row in df.select("topic").distinct().collect()]
    return tasks * sum(widths.get(name, 0) for name in found)


def _commit(
    catalog: Catalog,
    task: WriteTask,
    results: list[tuple[int, TaskResult]],
    transaction: tuple[str | None, int | None],
) -> ProduceResult:
    for _, result in sorted(results, key=lambda one: one[0]):
        if isinstance(result, SparklogError):
            raise result
    written = [(number, result) for number, result in results if isinstance(result, dict)]
    names = {name for _, result in written for name in result}
    names |= {task.topic} if task.topic is not None else set()
    ranges: dict[TopicPartition, OffsetRange] = {}
    replayed, forgotten = set(), set()
    for name in sorted(names):
        plan = task.plans[name]
        pending = in_order((number, result.get(name, [])) for number, result in written)
        committed = commit_write(
            catalog.store(plan.topic), plan, pending, app_id=transaction[0], version=transaction[1]
        )
        if committed.replayed:
            replayed.add(name)
        if committed.ranges is None:
            forgotten.add(name)
        for got in committed.ranges or ():
            ranges[TopicPartition(name, got.partition)] = got
    return ProduceResult(ranges, frozenset(replayed), frozenset(forgotten))
