"""The files of a table: merges small files, and drops files that are too old.

small       a file with less than half of FILE_BYTES and without a full row group: reading a full
            row group takes longer than opening its file, however few bytes it has
tier        small files of about the same size; sizes grow eightfold from tier to tier. Eight files
            of a tier become one file of the next tier, so a row is rewritten O(log n) times
window      the newest records of merged files are of one span of sparklog.table.retention.ms: with
            newer and newer records a file would never be too old, and none of its rows would go
merge       rows stay sorted by partition and offset: files are merged partition by partition, with
            one batch of each file in memory
retention   drops whole files, but only if no rows of lower offsets of their partitions stay; the
            table start rises
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparklog.clock import Clock
from sparklog.config.times import iso_ms
from sparklog.config.topic import TopicConfig
from sparklog.errors import CorruptMetadataError, MissingFileError, SparklogError
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.maintenance.table_commit import commit_change
from sparklog.model import TopicDescription
from sparklog.record.arrays import numbers_of
from sparklog.storage.files import Files
from sparklog.table.footer import Ranges, opened, ranges_of, read_newest_ms
from sparklog.table.marks import Mark, Marks
from sparklog.table.of_topic import (
    COMPACTED,
    EXPIRED,
    Change,
    delta_log,
    table_directory,
)
from sparklog.table.parquet import (
    FILE_BYTES,
    ROW_GROUP_ROWS,
    WrittenFile,
    write_files,
)
from sparklog.table.rows import read_rows
from sparklog.table.schema import ARROW_SCHEMA
from sparklog.table.snapshot import DataFile, Snapshot

_logger: Final = logging.getLogger(__name__)

TIER_FILES: Final = 8
"""A tier with fewer files is not merged. Also the factor between the sizes of two tiers."""
GROUP_FILES_MAX: Final = 64
_SMALLEST_TIER_BYTES: Final = 64 * 1024

Group = Sequence[DataFile]
"""Files that are merged into one file, or into a few of full size."""


def plan_row(
    action: str,
    *,
    partition: int | None = None,
    span: tuple[int | None, int | None] = (None, None),
    size: int | None = None,
) -> dict[str, Any]:
    """Return a row of the plan of `build_table`: an action on a span's offsets [start, end)."""
    start, end = span
    row = {"partition": partition, "action": action, "start": start, "end": end}
    return {**row, "bytes": size}


# --- small files ---------------------------------------------------------------------------------


def compacting_steps(context: JobContext, topic: TopicDescription) -> Iterator[Step]:
    """Yield the step that merges small files, if there are enough of them."""
    snapshot = delta_log(context.files, topic, context.clock).snapshot()
    groups = small_groups(snapshot, _retention_ms(context, topic))
    if groups:
        rows = [plan_row("merge files", size=sum(one.bytes for one in group)) for group in groups]
        yield Step(topic=topic.name, rows=rows, execute=partial(_compact, context, topic, groups))


def small_groups(snapshot: Snapshot, retention_ms: int) -> list[Group]:
    """Return the groups of small files to merge, in the order in which they were added."""
    alike: dict[tuple[int, int | None], list[DataFile]] = defaultdict(list)
    for one in snapshot.files.values():
        if _is_small(one):
            alike[_tier(one.bytes), _window(one, retention_ms)].append(one)
    return [
        files[first : first + GROUP_FILES_MAX]
        for files in alike.values()
        if len(files) >= TIER_FILES
        for first in range(0, len(files) - len(files) % TIER_FILES, GROUP_FILES_MAX)
    ]


def _is_small(file: DataFile) -> bool:
    return file.is_sorted and file.bytes < FILE_BYTES // 2 and (file.rows or 0) < ROW_GROUP_ROWS


def _tier(size: int) -> int:
    tier = 0
    while size >= _SMALLEST_TIER_BYTES * TIER_FILES**tier:
        tier += 1
    return tier


def _window(file: DataFile, retention_ms: int) -> int | None:
    """Return which span of the retention has a file's newest record; None if that is not known."""
    if retention_ms < 1:  # nothing expires, or everything does
        return 0
    newest_ms = _newest_ms(file)
    return None if newest_ms is None else newest_ms // retention_ms


def _compact(context: JobContext, topic: TopicDescription, groups: Sequence[Group]) -> Outcome:
    task = partial(compacted, context.files, context.clock, topic)
    answers = context.fleet.map(task, groups, f"merge files of table {topic.name}")
    problems: list[str] = []
    written: list[WrittenFile] = []
    dropped: list[DataFile] = []
    conflicts = 0
    for group, answer in zip(groups, answers, strict=True):
        if isinstance(answer, MissingFileError) and not _are_live(context, topic, group):
            conflicts += 1  # another build has merged or dropped the files, and vacuum was there
        elif isinstance(answer, SparklogError):
            problems.append(f"{topic.name}: {answer}")
        else:
            written += answer
            dropped += group
    if dropped:
        change = Change(operation=COMPACTED, written=written, dropped=dropped)
        commit_change(context, topic, change)
    return Outcome(
        counts={
            "merged_files": len(dropped),
            "into": len(written),
            "bytes": sum(one.bytes for one in written),
            **({"conflicts": conflicts} if conflicts else {}),
        },
        problems=problems,
    )


def _are_live(context: JobContext, topic: TopicDescription, group: Group) -> bool:
    """Return True if the table has all of these files now."""
    files = delta_log(context.files, topic, context.clock).snapshot().files
    return all(one.path in files for one in group)


def compacted(
    files: Files, clock: Clock, topic: TopicDescription, group: Group
) -> list[WrittenFile]:
    """Write the rows of a group, sorted, to as few files as possible; sync and return these."""
    directory = table_directory(topic)
    cursors = [_Cursor(files, f"{directory}/{one.path}") for one in group]
    return write_files(files, directory, _merged(cursors), clock.now_ms())


def _merged(cursors: "Sequence[_Cursor]") -> Iterator[pa.RecordBatch]:
    for partition in sorted({number for one in cursors for number in one.ranges}):
        yield from _by_offset(
            [one.rows_of(partition) for one in cursors if partition in one.ranges]
        )


def _by_offset(sources: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sources that are sorted by offset, all in order; no two share an offset.

    Files may lie between the rows of another one: an earlier merge joined files around them.
    """
    heads = [(batch, source) for source in sources for batch in islice(source, 1)]
    while heads:
        heads.sort(key=_first_offset)
        batch, source = heads.pop(0)
        end = batch.num_rows
        if heads:
            end = int(np.searchsorted(numbers_of(batch.column("offset")), _first_offset(heads[0])))
        yield batch.slice(0, end)
        rest = [batch.slice(end)] if end < batch.num_rows else islice(source, 1)
        heads += [(one, source) for one in rest]


def _first_offset(head: tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]) -> int:
    return int(head[0].column("offset")[0].as_py())


class _Cursor:
    """A sorted file, read once from front to back."""

    def __init__(self, files: Files, path: str) -> None:
        file = opened(files, path)
        self.ranges: Ranges = ranges_of(file)
        self._batches = read_rows(file, ARROW_SCHEMA.names)
        self._held: pa.RecordBatch | None = None

    def rows_of(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Call it with partitions in ascending order."""
        while True:
            batch = self._held if self._held is not None else next(self._batches, None)
            if batch is None:
                return
            end = int(np.searchsorted(numbers_of(batch.column("partition")), partition, "right"))
            if end:
                yield batch.slice(0, end).cast(ARROW_SCHEMA)
            if end < batch.num_rows:
                self._held = batch.slice(end)
                return
            self._held = None


# --- retention -----------------------------------------------------------------------------------


def expiring_steps(context: JobContext, topic: TopicDescription) -> Iterator[Step]:
    """Yield the step that drops files older than sparklog.table.retention.ms, if there are any."""
    retention_ms = _retention_ms(context, topic)
    if retention_ms < 0:
        return
    snapshot = delta_log(context.files, topic, context.clock).snapshot()
    before_ms = context.clock.now_ms() - retention_ms
    files = snapshot.files.values()
    expired = [one for one in files if _is_before(context, topic, one, before_ms)]
    if not expired:
        return
    ranges = _ranges(context, topic, expired)
    lasts = _lasts(ranges.values())
    young = [one for path, one in snapshot.files.items() if path not in ranges]
    below = [one for one in young if _may_hold_below(one, lasts)]
    chosen = droppable(expired, {**ranges, **_ranges(context, topic, below)})
    if chosen:
        marks = snapshot.marks(topic.topic_id)
        ends = _lasts(ranges[one.path] for one in chosen)
        starts = {number: last + 1 for number, last in sorted(ends.items())}
        rows = [
            plan_row("drop files", partition=number, span=(marks.partitions[number].start, start))
            for number, start in starts.items()
        ]
        execute = partial(_expire, context, topic, chosen, marks, starts)
        yield Step(topic=topic.name, rows=rows, execute=execute)


def _retention_ms(context: JobContext, topic: TopicDescription) -> int:
    """Return the retention of a topic's table by its present config; -1: for ever."""
    config = TopicConfig.parse(context.catalog.topic_image(topic).description.configs)
    return config.table_retention_ms


def _is_before(
    context: JobContext, topic: TopicDescription, file: DataFile, before_ms: int
) -> bool:
    """Return True if every row of a file is older than a time.

    If statistics do not tell, the rows are read, but not before the file itself is older. If they
    cannot be read, the file stays.
    """
    newest_ms = _newest_ms(file)
    if _lacks_times(file) and file.action["modificationTime"] < before_ms:
        try:
            path = f"{table_directory(topic)}/{file.path}"
            newest_ms = read_newest_ms(opened(context.files, path))
        except (CorruptMetadataError, MissingFileError) as error:
            _logger.warning("topic %r: the file stays in its table: %s", topic.name, error)
    return newest_ms is not None and newest_ms < before_ms


def _lacks_times(file: DataFile) -> bool:
    """Return True if another engine has written the file without statistics of times.

    Files of sparklog (sorted, with a count of rows) lack only times after the year 9999.
    """
    return file.max_timestamp is None and not (file.is_sorted and file.rows is not None)


def _newest_ms(file: DataFile) -> int | None:
    """Return the time of the newest row.

    If no row has a timestamp (-1), it is the time of the file. It is not known (None) outside the
    years 1 to 9999, and without statistics.
    """
    newest_ms = None if file.max_timestamp is None else iso_ms(file.max_timestamp)
    return file.action["modificationTime"] if newest_ms == -1 else newest_ms


def droppable(expired: Sequence[DataFile], ranges: Mapping[str, Ranges]) -> list[DataFile]:
    """Return the expired files that may be dropped: no rows of lower offsets stay in the table.

    `ranges` are the offsets of these files, and of all others with lower offsets, by path.
    """
    chosen = {one.path: one for one in expired}
    while True:
        least: dict[int, int] = {}
        for path, spans in ranges.items():
            if path not in chosen:
                for number, (first, _) in spans.items():
                    least[number] = min(first, least.get(number, first))
        staying = [
            path
            for path in chosen
            for number, (_, last) in ranges[path].items()
            if number in least and least[number] < last
        ]
        if not staying:
            return list(chosen.values())
        for path in staying:
            chosen.pop(path, None)


def _ranges(
    context: JobContext, topic: TopicDescription, some: Iterable[DataFile]
) -> dict[str, Ranges]:
    directory = table_directory(topic)
    return {one.path: ranges_of(opened(context.files, f"{directory}/{one.path}")) for one in some}


def _lasts(ranges: Iterable[Ranges]) -> dict[int, int]:
    """Return the largest offset of each partition."""
    lasts: dict[int, int] = {}
    for spans in ranges:
        for number, (_, last) in spans.items():
            lasts[number] = max(last, lasts.get(number, last))
    return lasts


def _may_hold_below(file: DataFile, lasts: Mapping[int, int]) -> bool:
    """Whether a file may have rows of offsets below these, by its statistics."""
    if (bounds := file.bounds) is None:
        return True
    (low, high), (first, _) = bounds
    return any(low <= number <= high and first < last for number, last in lasts.items())


def _expire(
    context: JobContext,
    topic: TopicDescription,
    chosen: Sequence[DataFile],
    marks: Marks,
    starts: Mapping[int, int],
) -> Outcome:
    change = Change(
        operation=EXPIRED,
        planned={number: marks.partitions[number] for number in starts},
        marks={
            number: Mark(start, marks.partitions[number].end) for number, start in starts.items()
        },
        dropped=chosen,
    )
    commit_change(context, topic, change)
    counts = {"dropped_files": len(chosen), "bytes": sum(one.bytes for one in chosen)}
    return Outcome(counts=counts)
