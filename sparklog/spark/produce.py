"""produce(): a DataFrame to a log, at once visible and with its offsets as the answer.

plan      the newest image of each topic
write     every Spark task encodes its rows straight into segment files, without a shuffle
commit    one commit of all topics gives the offsets, in (task, file) order
answer    the offset range of each partition
"""

import pickle
import re
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from sparklog.config.connector import without_connector_options
from sparklog.config.options import PRODUCE_OPTIONS, parse_options
from sparklog.errors import SparklogError, UsageError
from sparklog.metadata.catalog import Catalog
from sparklog.spark.cluster import clustered
from sparklog.spark.first_error import FirstError
from sparklog.spark.schema import input_columns
from sparklog.spark.session import require_classic, require_workers
from sparklog.spark.write_job import FILES_MAX, ProduceResult, TaskSegments, WriteJob
from sparklog.spark.write_task import RESULT_SCHEMA, TaskResult, WriteTask
from sparklog.storage import open_files

_LOCAL_MASTER: Final = re.compile(r"local(\[[^,\]]*(,\s*(\d+)\s*)?\])?")


def produce(
    df: DataFrame, log_dir: str | PathLike[str], topic: str | None = None, **options: Any
) -> ProduceResult:
    """Write a DataFrame's rows as records; return the offset range of each partition.

    Columns are those of Spark's Kafka sink, `timestamp` and `offset` (see sparklog.spark.schema).
    Options are Kafka's (sparklog.config.options): `compression.type`, `batch.size`, `partitioner`,
    `segment.bytes`, `flush`, `clustered`, `allowOffsetGaps`, `txnAppId` with `txnVersion`,
    `storage.<NAME>`; the names may begin with `kafka.`, as for the connector.

    With a column `offset` records keep their offsets, if these continue the log: in each partition
    the log end offset and those behind it, in the order of the rows of each task. Otherwise, also
    when somebody else has written meanwhile, UnexpectedAppendOffsetError says where, and nothing is
    written.

    All partitions of all topics become visible in one commit, and with txnAppId and txnVersion only
    once. Raises the errors of sparklog.errors, also those of tasks; nothing is visible then, but
    for CommitOutcomeUnknownError. An error about a row says which row of which Spark partition
    (`spark_partition_id`; of the shuffled rows where `clustered`) its row 0 is. What the DataFrame
    itself raises is Spark's.
    """
    _require_batch(df)
    require_workers(df.sparkSession)
    given, storage = parse_options(
        PRODUCE_OPTIONS, without_connector_options(options, PRODUCE_OPTIONS)
    )
    given["topic"] = topic if topic is not None else given["topic"]
    columns = input_columns(df.schema, needs_topic=given["topic"] is None)
    catalog = Catalog(open_files(fspath(log_dir), storage), flush=given["flush"] == "fsync")
    job = WriteJob.planned(catalog, given, columns)
    task = replace(job.task(), tries=task_tries(df.sparkSession))
    # A write that has landed is answered from its receipt: its rows are not even computed.
    if job.is_committed(catalog):
        return job.replayed(catalog)
    results = _write(df.select(*columns), task, given["clustered"])
    return job.commit(catalog, _segments(results))


def _segments(results: list[tuple[int, TaskResult]]) -> list[TaskSegments]:
    """Return what the tasks wrote, or raise the error of the first."""
    written: list[TaskSegments] = []
    for number, result in sorted(results, key=lambda one: one[0]):
        if isinstance(result, SparklogError):
            raise result
        written.append((number, result))
    return written


def _require_batch(df: DataFrame) -> None:
    require_classic(df)
    if df.isStreaming:
        raise UsageError(
            "produce takes a batch DataFrame, this one is a stream: produce its batches in "
            "writeStream.foreachBatch, with txnAppId and txnVersion=batch id"
        )


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
    if how == "true" or (how == "auto" and _makes_many_files(df, written, task)):
        written = clustered(df, task).mapInArrow(task, RESULT_SCHEMA)
    rows = errors.run(written.collect)
    return [(row.task, pickle.loads(row.result)) for row in rows]  # noqa: S301 - our own tasks'


def _makes_many_files(df: DataFrame, written: DataFrame, task: WriteTask) -> bool:
    """Whether `written` makes many segment files if every task meets every partition.

    How many tasks an adaptive plan has is known only when the stages before the last one have run:
    they run here, and `written` goes on from where they ended. The topics of the column `topic` are
    counted by a pass over it when it matters. Rows that bring their own offsets are a log already,
    of which a task meets a few partitions.
    """
    if "offset" in df.columns:
        return False
    widths = {name: plan.topic.num_partitions for name, plan in task.plans.items()}
    tasks = written.rdd.getNumPartitions()
    files = tasks * sum(widths.values())
    if files <= FILES_MAX or task.topic is not None:
        return files > FILES_MAX
    found = [row.topic for row in df.select("topic").distinct().collect()]
    return tasks * sum(widths.get(name, 0) for name in found) > FILES_MAX
