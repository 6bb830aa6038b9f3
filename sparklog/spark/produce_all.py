"""produce_all(): DataFrames to topics, and offsets of groups, by one commit.

plan      each topic's newest image; with txnAppId and txnVersion, whether the write has landed
write     one DataFrame after another, by Spark tasks, as `produce` does
commit    one entry of all topics, and of __consumer_offsets
"""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from sparklog.config.connector import without_connector_options
from sparklog.config.options import PRODUCE_OPTIONS, TOPIC, parse_options
from sparklog.errors import InvalidOptionError
from sparklog.spark.commit_group import Offsets, OffsetsJson, flat
from sparklog.spark.produce import require_batch
from sparklog.spark.schema import input_columns
from sparklog.spark.session import require_workers
from sparklog.spark.writing.produce_result import ProduceResult
from sparklog.storage import open_files

if TYPE_CHECKING:
    from sparklog.metadata.catalog import Catalog
    from sparklog.spark.writing.write_job import WriteJob
    from sparklog.transactions.with_offsets import GroupOffsets

_OPTIONS = tuple(one for one in PRODUCE_OPTIONS if one is not TOPIC)


def produce_all(
    frames: Mapping[str, DataFrame],
    log_dir: str | PathLike[str],
    offsets: Mapping[str, OffsetsJson | Offsets] | None = None,
    **options: Any,
) -> ProduceResult:
    """Write a DataFrame to each topic, and commit offsets of groups, all in one commit.

    `frames` are {topic: DataFrame}; a column `topic` has no effect. `offsets` are {group: offsets},
    those of `ends` or any {topic: {partition: N}} of the next record to read. Columns, options
    (without `topic`) and the answer are those of `produce`. With txnAppId and txnVersion the write
    lands once, offsets too; a replay computes no rows and gets the first answer.

    Raises the errors of `produce`, InvalidOptionError for a txnVersion that has landed in some of
    these topics, but not in all, GroupNotEmptyError (a group has members at a gateway: only they
    commit its offsets), InvalidGroupIdError, OffsetOutOfRangeError. Then nothing of any topic or
    group is visible, except perhaps after CommitOutcomeUnknownError.
    """
    from sparklog.spark.writing.write_job import WriteJob, writing_catalog

    _check_given(frames, offsets, options)
    for df in frames.values():
        require_batch(df)
    require_workers(next(iter(frames.values())).sparkSession)
    given, storage = parse_options(_OPTIONS, without_connector_options(options, _OPTIONS))
    catalog = writing_catalog(open_files(fspath(log_dir), storage), given)
    jobs: dict[str, WriteJob] = {}
    rows: dict[str, DataFrame] = {}
    for name, df in sorted(frames.items()):
        columns = input_columns(df.schema, needs_topic=False)
        jobs[name] = WriteJob.planned(catalog, {**given, "topic": name}, columns)
        rows[name] = df.select(*columns)
    return _written(catalog, rows, jobs, _committed(offsets or {}), given)


def _check_given(frames: object, offsets: object, options: Mapping[str, Any]) -> None:
    if not isinstance(frames, Mapping) or not frames:
        raise InvalidOptionError("frames must be {topic: DataFrame}, with one at least")
    if offsets is not None and not isinstance(offsets, Mapping):
        told = type(offsets).__name__
        raise InvalidOptionError(f"offsets are a {told}: they must be {{group: offsets}}")
    if any(name.lower() == "topic" for name in options):
        raise InvalidOptionError("option topic is not allowed here: frames name the topics")


def _committed(offsets: Mapping[str, OffsetsJson | Offsets]) -> "GroupOffsets":
    from sparklog.coordinator.requests import CommittedOffset

    return {
        group: {place: CommittedOffset(one) for place, one in flat(some).items()}
        for group, some in offsets.items()
    }


def _written(
    catalog: "Catalog",
    rows: Mapping[str, DataFrame],
    jobs: "Mapping[str, WriteJob]",
    offsets: "GroupOffsets",
    given: Mapping[str, Any],
) -> ProduceResult:
    """Write the rows of each topic and commit all, unless the write has landed already."""
    from sparklog.coordinator.commits.offset_checks import check_offsets
    from sparklog.log_writer import PRODUCE
    from sparklog.spark.writing.write_job import result_of
    from sparklog.spark.writing.write_rows import written_segments
    from sparklog.transactions.with_offsets import commit_with_offsets, has_landed

    app_id, version = given["txnAppId"], given["txnVersion"]
    topics = [job.plans[name].topic for name, job in jobs.items()]
    if app_id is not None and has_landed(catalog, topics, offsets, app_id, version):
        writes = [job.write(name, ()) for name, job in jobs.items()]
        landed = catalog.commit_all(writes, operation=PRODUCE)
        return result_of(zip(jobs, landed, strict=True))
    for group_id, some in offsets.items():  # before anything is written
        check_offsets(catalog, group_id, some)
    writes = []
    for name, job in jobs.items():
        written = written_segments(rows[name], job.task(), given["clustered"])
        writes.append(job.write(name, written))
    told = next(iter(jobs.values())).told()
    landed = commit_with_offsets(catalog, writes, offsets, told)
    return result_of(zip(jobs, landed, strict=True))
