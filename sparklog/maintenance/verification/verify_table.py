"""Compares a table with its log: counts and hashes of the records in ranges of offsets.

    range    [largest of table start, log start and cleaner offset, smaller of table end and last
             stable offset), in parts of RANGE_BYTES. Below the cleaner offset the log may have
             fewer records than the table
    part     as many offsets of a range as have about PART_BYTES of records in the log
    log      decoded as for a read_committed reader
    table    the row groups that may have rows of the part, by their statistics
    both     part by part sorted by partition and offset, and hashed

A problem names its range.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.config.topic import TopicConfig
from sparklog.errors import SparklogError, UsageError
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.image import Slice, TopicImage
from sparklog.model import READ_COMMITTED, TopicDescription
from sparklog.record.decode import ALL
from sparklog.record.record_batches import BatchMaker
from sparklog.storage.files import Files
from sparklog.table.footer import opened
from sparklog.table.marks import Mark
from sparklog.table.of_topic import check_copy, delta_log, table_directory
from sparklog.table.parquet import sorted_by_offset
from sparklog.table.rows import read_rows
from sparklog.table.schema import ARROW_SCHEMA, COLUMNS
from sparklog.table.snapshot import DataFile, Snapshot

RANGE_BYTES: Final = 64 * 1024 * 1024
"""About how many bytes of the log a task compares."""
PART_BYTES: Final = 64 * 1024 * 1024
"""About how many bytes of decoded records are in memory at once, of the log and of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareWork:
    """A range of a partition, and the files of the table that may have rows of it."""

    files: Files
    topic: TopicDescription
    partition: int
    start: int
    end: int
    slices: Sequence[Slice]
    data_files: Sequence[str]


def table_steps(context: JobContext, topic: TopicDescription, image: TopicImage) -> Iterator[Step]:
    """Yield the step that compares the table of a topic with its log, if it has one.

    `image` may be older than the table.
    """
    if not TopicConfig.parse(topic.configs).table_enable:
        return
    snapshot = delta_log(context.files, topic, context.clock).snapshot()
    if snapshot.exists:
        works = list(_works(context, topic, image, snapshot))
        rows = [
            {"what": f"table of {topic.name}-{one.partition}, offsets [{one.start}, {one.end})"}
            for one in works
        ] or [{"what": f"table of {topic.name}"}]
        execute = partial(_compare, context, topic, snapshot, works)
        yield Step(topic=topic.name, rows=rows, execute=execute)


def _works(
    context: JobContext, topic: TopicDescription, image: TopicImage, snapshot: Snapshot
) -> Iterator[CompareWork]:
    for number, mark in snapshot.marks(topic.topic_id).partitions.items():
        for start, end, slices in _ranges(image, number, mark):
            yield CompareWork(
                files=context.files,
                topic=topic,
                partition=number,
                start=start,
                end=end,
                slices=slices,
                data_files=[
                    one.path
                    for one in snapshot.files.values()
                    if _may_hold(one, number, start, end)
                ],
            )


def _ranges(image: TopicImage, number: int, mark: Mark) -> Iterator[tuple[int, int, list[Slice]]]:
    log = image.partition(number)
    start = max(mark.start, log.log_start_offset, log.cleaner_offset)
    end = min(mark.end, log.last_stable_offset)
    held: list[Slice] = []
    size = 0
    for piece in log.slices(start, end) if start < end else ():
        held.append(piece)
        size += piece.segment.log_bytes
        if size >= RANGE_BYTES:
            yield start, piece.end, held
            start, held, size = piece.end, [], 0
    if start < end:
        yield start, end, held


def _may_hold(file: DataFile, partition: int, start: int, end: int) -> bool:
    if (bounds := file.bounds) is None:
        return True
    (low, high), (first, last) = bounds
    return low <= partition <= high and first < end and start <= last


def _compare(
    context: JobContext, topic: TopicDescription, snapshot: Snapshot, works: Sequence[CompareWork]
) -> Outcome:
    problems: list[str] = []
    try:
        check_copy(context.catalog, topic, snapshot)
    except UsageError as error:
        problems.append(str(error))
    counts = {"ranges": len(works), "records": 0, "different": 0}
    answers = context.fleet.map(compared, works, f"verify table {topic.name}")
    for work, answer in zip(works, answers, strict=True):
        if isinstance(answer, SparklogError):
            problems.append(f"{topic.name}-{work.partition}: {answer}")
            continue
        of_log, of_table = answer
        counts["records"] += of_log[0]
        if of_log != of_table:
            counts["different"] += 1
            problems.append(
                f"{topic.name}-{work.partition}: offsets [{work.start}, {work.end}): the log has "
                f"{of_log[0]} records with hash {of_log[1]}, the table {of_table[0]} with "
                f"{of_table[1]}"
            )
    return Outcome(counts=counts, problems=problems)


Digest = tuple[int, str]
"""The number of records, and a hash of them."""


def compared(work: CompareWork) -> tuple[Digest, Digest]:
    """Return the digests of the log's and of the table's records of a range."""
    of_log, of_table = _Hash(), _Hash()
    for start, end, batches in _parts(work):
        of_log.add(batches)
        of_table.add(_of_table(replace(work, start=start, end=end)))
    return of_log.digest(), of_table.digest()


def _parts(work: CompareWork) -> Iterator[tuple[int, int, Sequence[pa.RecordBatch]]]:
    """Yield the offsets [start, end) of each part, and the log's records of it."""
    start, size = work.start, 0
    held: list[pa.RecordBatch] = []
    for batch in _of_log(work):
        held.append(batch)
        size += batch.nbytes
        if size >= PART_BYTES:
            end = batch.column("offset")[-1].as_py() + 1
            yield start, end, held
            start, held, size = end, [], 0
    yield start, work.end, held


def _of_log(work: CompareWork) -> Iterator[pa.RecordBatch]:
    from sparklog.log_reader.slices import read_slices

    to_batch = BatchMaker(work.topic.name, work.partition, COLUMNS)
    directory = topic_directory(work.topic)
    for records in read_slices(
        work.files, directory, work.slices, columns=ALL, isolation=READ_COMMITTED
    ):
        yield to_batch(records)


def _of_table(work: CompareWork) -> Iterator[pa.RecordBatch]:
    wanted = (
        (pc.field("partition") == work.partition)
        & (pc.field("offset") >= work.start)
        & (pc.field("offset") < work.end)
    )
    directory = table_directory(work.topic)
    for path in work.data_files:
        file = opened(work.files, f"{directory}/{path}")
        groups = [one for one in range(file.num_row_groups) if _group_may_hold(file, one, work)]
        for batch in read_rows(file, ARROW_SCHEMA.names, groups):
            rows = pa.Table.from_batches([batch]).cast(ARROW_SCHEMA).filter(wanted)
            yield from rows.to_batches()


def _group_may_hold(file: pq.ParquetFile, group: int, work: CompareWork) -> bool:
    found = file.metadata.row_group(group)
    bounds = {
        found.column(at).path_in_schema: found.column(at).statistics
        for at in range(found.num_columns)
    }
    partition, offset = bounds["partition"], bounds["offset"]
    if partition is None or offset is None:
        return True
    return bool(
        partition.min <= work.partition <= partition.max
        and offset.min < work.end
        and work.start <= offset.max
    )


class _Hash:
    """A file for Arrow's writer that hashes the written bytes and does not keep them."""

    closed = False

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._rows = 0

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Hash the records of a part, which may have any order."""
        table = sorted_by_offset(pa.Table.from_batches(batches, ARROW_SCHEMA)).combine_chunks()
        with pa.ipc.new_stream(pa.PythonFile(self, mode="w"), ARROW_SCHEMA) as writer:
            writer.write_table(table)
        self._rows += table.num_rows

    def digest(self) -> Digest:
        """Return the digest of all parts."""
        return self._rows, self._hash.hexdigest()

    def write(self, data: Any) -> int:
        """Hash bytes; return their number."""
        self._hash.update(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: no byte is buffered."""
