"""The tasks of a produce: rows to segment files, without a shuffle unless clustered."""

import pickle
import re
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from sparklog.errors import SparklogError
from sparklog.spark.writing.cluster import clustered
from sparklog.spark.writing.first_error import first_error
from sparklog.spark.writing.write_job import FILES_MAX, TaskSegments
from sparklog.spark.writing.write_task import RESULT_SCHEMA, TaskResult, WriteTask

_LOCAL_MASTER: Final = re.compile(r"local(\[[^,\]]*(,\s*(\d+)\s*)?\])?")


def written_segments(df: DataFrame, task: WriteTask, how: str) -> list[TaskSegments]:
    """Run `task` over all rows; return what each Spark task wrote, in the order of their numbers.

    `how` is the option `clustered`. Raises the error of the first task that has one.
    """
    task = replace(task, tries=task_tries(df.sparkSession))
    written: list[TaskSegments] = []
    for number, result in sorted(_write(df, task, how), key=lambda one: one[0]):
        if isinstance(result, SparklogError):
            raise result
        written.append((number, result))
    return written


def task_tries(spark: SparkSession) -> int:
    """Return how often Spark tries a task: once on a local master that does not say otherwise."""
    context = spark.sparkContext
    local = _LOCAL_MASTER.fullmatch(context.master or "")
    if local is not None:
        return int(local[3] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def _write(df: DataFrame, task: WriteTask, how: str) -> list[tuple[int, TaskResult]]:
    with first_error(df.sparkSession.sparkContext) as errors:
        task = replace(task, errors=errors)
        written = df.mapInArrow(task, RESULT_SCHEMA)
        if how == "true" or (how == "auto" and _makes_many_files(df, written, task)):
            written = clustered(df, task).mapInArrow(task, RESULT_SCHEMA)
        rows = written.collect()
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
