"""produce(): a DataFrame to a log, at once visible and with its offsets as the answer.

plan      one snapshot of each topic
write     every Spark task encodes its rows straight into segment files, without a shuffle
commit    one commit a topic gives the offsets, in (task, file) order
answer    the offset range of each partition
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame

from sparklog.config.options import PRODUCE_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError, SparklogError
from sparklog.log_writer import WriteOptions, WritePlan, commit_write, in_order, plan_write
from sparklog.manifest.catalog import Catalog
from sparklog.model import OffsetRange, TopicPartition
from sparklog.spark.cluster import clustered
from sparklog.spark.schema import input_columns
from sparklog.spark.write_task import RESULT_SCHEMA, TaskResult, WriteTask
from sparklog.storage import open_files

_FILES_MAX: Final = 1000
"""Above this many files `clustered=auto` shuffles by partition first."""


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


def produce(df: DataFrame, log_dir: str, topic: str | None = None, **options: Any) -> ProduceResult:
    """Write a DataFrame's rows as records; return the offset range of each partition.

    Columns are those of Spark's Kafka sink, and `timestamp` (see sparklog.spark.schema). Options
    are Kafka's (sparklog.config.options): `compression.type`, `batch.size`, `partitioner`,
    `segment.bytes`, `flush`, `clustered`, `txnAppId` with `txnVersion`, `storage.<NAME>`.

    All partitions of a topic become visible in one commit; several topics one after another, and a
    replay with the same txnAppId and txnVersion finishes what is missing. Raises the errors of
    sparklog.errors; nothing of a topic is visible then, but for CommitOutcomeUnknownError.
    """
    given, storage = parse_options(PRODUCE_OPTIONS, options)
    topic = topic if topic is not None else given["topic"]
    if (given["txnAppId"] is None) != (given["txnVersion"] is None):
        raise InvalidOptionError("options txnAppId and txnVersion go together", option="txnAppId")
    write_options = WriteOptions(
        compression_type=given["compression.type"],
        batch_size=given["batch.size"],
        partitioner=given["partitioner"],
        segment_bytes=given["segment.bytes"],
        flush=given["flush"] == "fsync",
    )
    columns = input_columns(df.schema, needs_topic=topic is None)
    catalog = Catalog(open_files(log_dir, storage), flush=write_options.flush)
    names = [topic] if topic is not None else list(catalog.topics())
    plans = {name: plan_write(catalog, name, write_options) for name in names}
    task = WriteTask(catalog.files, plans, topic)
    results = _write(df.select(*columns), task, given["clustered"])
    return _commit(catalog, plans, results, topic, (given["txnAppId"], given["txnVersion"]))


def _write(df: DataFrame, task: WriteTask, how: str) -> list[tuple[int, TaskResult]]:
    widest = max((plan.topic.num_partitions for plan in task.plans.values()), default=1)
    if how == "true" or (how == "auto" and _files_made(df, widest) > _FILES_MAX):
        df = clustered(df, task)
    rows = df.mapInArrow(task, RESULT_SCHEMA).collect()
    return [(row.task, pickle.loads(row.result)) for row in rows]  # noqa: S301 - our own tasks'


def _files_made(df: DataFrame, num_partitions: int) -> int:
    """Return about how many segment files direct writing makes, without running anything."""
    plan = df._jdf.queryExecution().executedPlan()
    tasks = (
        plan.outputPartitioning().numPartitions() or df.sparkSession.sparkContext.defaultParallelism
    )
    return int(tasks) * num_partitions


def _commit(
    catalog: Catalog,
    plans: Mapping[str, WritePlan],
    results: list[tuple[int, TaskResult]],
    topic: str | None,
    transaction: tuple[str | None, int | None],
) -> ProduceResult:
    for _, result in sorted(results, key=lambda one: one[0]):
        if isinstance(result, SparklogError):
            raise result
    written = [(number, result) for number, result in results if isinstance(result, dict)]
    names = {name for _, result in written for name in result} | ({topic} if topic else set())
    ranges: dict[TopicPartition, OffsetRange] = {}
    replayed, forgotten = set(), set()
    for name in sorted(names):
        pending = in_order((number, result.get(name, [])) for number, result in written)
        store = catalog.store(plans[name].topic)
        committed = commit_write(
            store, plans[name], pending, app_id=transaction[0], version=transaction[1]
        )
        if committed.replayed:
            replayed.add(name)
        if committed.ranges is None:
            forgotten.add(name)
        for got in committed.ranges or ():
            ranges[TopicPartition(name, got.partition)] = got
    return ProduceResult(ranges, frozenset(replayed), frozenset(forgotten))
