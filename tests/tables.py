"""Tables of topics without Spark: their rows, and what a stitched read of a partition gets."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.model import READ_UNCOMMITTED, TopicDescription
from sparklog.storage.files import Files
from sparklog.table.footer import opened
from sparklog.table.marks import NO_MARK, Mark
from sparklog.table.of_topic import delta_log, table_directory
from sparklog.table.parquet import sorted_by_offset
from sparklog.table.schema import ARROW_SCHEMA
from sparklog.table.snapshot import Snapshot
from sparklog.table.stitch import stitch
from tests.logs import new_topic
from tests.maintenance import context_of
from tests.naive.records import Record
from tests.partitions import Partition

WITH_TABLE = {
    "sparklog.table.enable": "true",
    "sparklog.table.target.lag.ms": "0",
    "retention.ms": "-1",
}
"""Configs of a topic whose table is always due."""

NO_ROWS = pa.Table.from_batches([], ARROW_SCHEMA)


def topic_with_table(log_dir: str | Path, partitions: int = 2, **config: object) -> str:
    """Make a topic `t` with a table that is always due."""
    given = {name.replace("_", "."): value for name, value in config.items()}
    return new_topic(log_dir, "t", partitions, {**WITH_TABLE, **given})


def build(log: Partition | str | JobContext, **options: Any) -> list[StepReport]:
    """Run the job; return its reports."""
    context = log if isinstance(log, JobContext) else context_of(log)
    reports: list[StepReport] = []
    given = {"rebuild": False, **options}
    dry_run = given.pop("dry_run", False)
    JobRun(name="build_table", job=build_table, options=given, dry_run=dry_run).run(
        context, reports.append
    )
    return reports


def table_path(log_dir: str) -> Path:
    """Where the only table of a log dir lies."""
    (found,) = Path(log_dir).glob("t-*/table")
    return found


def delta(log_dir: str) -> DeltaTable:
    """The only table of a log dir, opened by delta-rs."""
    return DeltaTable(table_path(log_dir))


def problems(reports: Iterable[StepReport]) -> list[str]:
    """What went wrong."""
    return [line for one in reports if one.outcome for line in one.outcome.problems]


def counted(reports: Iterable[StepReport], name: str) -> list[int]:
    """A counter of every step that has it."""
    return [
        one.outcome.counts[name] for one in reports if one.outcome and name in one.outcome.counts
    ]


def context_and_topic(log: Partition | str) -> tuple[JobContext, TopicDescription]:
    """The context of jobs, and the one topic."""
    context = context_of(log)
    (topic,) = context.topics(())
    return context, topic


def snapshot_of(log: Partition | str) -> Snapshot:
    """The table as it is now."""
    context, topic = context_and_topic(log)
    return delta_log(context.files, topic, context.clock).snapshot()


def marks_of(log: Partition | str) -> dict[int, Mark]:
    """The marks of the table."""
    return dict(snapshot_of(log).marks(context_and_topic(log)[1].topic_id).partitions)


def table_of(log: Partition | str) -> pa.Table:
    """All rows of the table, sorted by partition and offset."""
    context, topic = context_and_topic(log)
    return rows_of_files(context.files, topic, snapshot_of(log).files)


def rows_of_files(files: Files, topic: TopicDescription, paths: Iterable[str]) -> pa.Table:
    """All rows of some files of a table, sorted."""
    directory = table_directory(topic)
    tables = [opened(files, f"{directory}/{path}").read().cast(ARROW_SCHEMA) for path in paths]
    return sorted_by_offset(pa.concat_tables([NO_ROWS, *tables]))


def records_of(table: pa.Table) -> list[Record]:
    """The rows of one partition as records."""
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((pair["key"], pair["value"]) for pair in row["headers"] or ()),
            row["timestampType"],
        )
        for row in _with_milliseconds(table).to_pylist()
    ]


def _with_milliseconds(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("timestamp")
    times = pc.divide(table["timestamp"].cast(pa.int64()), 1000)
    return table.set_column(at, "timestamp", times)


def stitched(
    partition: Partition, start: int, end: int, isolation: str = READ_UNCOMMITTED
) -> list[Record]:
    """What `history=auto` reads of the offsets [start, end)."""
    of_table = records_of(table_of(partition))
    mark = marks_of(partition).get(0, NO_MARK)
    parts = stitch(start, end, mark, partition.log, isolation)
    found = [one for low, high in parts.table for one in of_table if low <= one.offset < high]
    for low, high in parts.log:
        found += partition.read(low, high, isolation=isolation)
    return sorted(found, key=lambda one: one.offset)


def names(config: dict[str, str]) -> dict[str, str]:
    """Topic configs as the names of parameters."""
    return {name.replace(".", "_"): value for name, value in config.items()}
