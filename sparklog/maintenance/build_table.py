"""Builds tables as a job: copies records of the log that a topic's table does not have yet.

    plan       per partition [the table's end, last stable offset), in units of UNIT_BYTES of log
    execute    each unit is a task: decode -> Parquet, synced; each step is one commit
    then       small files are merged, and files that are too old are dropped

A step is bounded, so a large backfill needs many commits. A commit has files and marks together: a
step that is killed has landed as a whole or not at all; if not, vacuum deletes its files. Of two
builds at the same time only one lands: the other finds that a mark has moved. A unit that fails (a
damaged segment) stops only its own partitions. No produce request waits for a build.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from sparklog.clock import Clock
from sparklog.config.topic import TopicConfig
from sparklog.errors import SparklogError, UsageError
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.maintenance.table_commit import commit_change
from sparklog.maintenance.table_files import compacting_steps, expiring_steps, plan_row
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.edit import LogVersion
from sparklog.metadata.state.image import PartitionLog, Slice, TopicImage
from sparklog.model import READ_COMMITTED, TopicDescription
from sparklog.record.decode import ALL
from sparklog.record.record_batches import BatchMaker
from sparklog.storage.files import Files
from sparklog.table.marks import Mark, Marks
from sparklog.table.of_topic import (
    BUILT,
    Change,
    check_copy,
    delta_log,
    table_directory,
)
from sparklog.table.parquet import WrittenFile, write_files
from sparklog.table.schema import COLUMNS
from sparklog.table.snapshot import REBUILT, Snapshot

UNIT_BYTES: Final = 256 * 1024 * 1024
"""About how much of the log a task copies."""
STEP_UNITS: Final = 32
"""The most units of a step: a run that is killed loses at most the work of one step."""


def build_table(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Copy due records to the tables of topics with `sparklog.table.enable`.

    `options["rebuild"]`: empty the table first, and begin at the log start.
    """
    chosen = context.topics(topics)
    context.open_together(one for one in chosen if "sparklog.table.enable" in one.configs)
    for topic in chosen:
        try:
            config = TopicConfig.parse(topic.configs)
            if config.table_enable:
                yield from _steps(context, topic, config, rebuild=options["rebuild"])
            elif topics and options["rebuild"]:
                raise UsageError(
                    f"topic {topic.name!r} keeps no table: set its config "
                    f"sparklog.table.enable=true, and then rebuild it"
                )
        except SparklogError as error:
            yield failing_step(topic.name, error)


def _steps(
    context: JobContext, topic: TopicDescription, config: TopicConfig, *, rebuild: bool
) -> Iterator[Step]:
    table = delta_log(context.files, topic, context.clock)
    snapshot = table.snapshot()
    if rebuild and snapshot.exists:
        yield _rebuild_step(context, topic, snapshot)
        after = table.snapshot()
        # In a dry run the table was not emptied; the plan continues as if it were empty.
        snapshot = Snapshot() if after.version == snapshot.version else after
    image, marks = check_copy(context.catalog, topic, snapshot), snapshot.marks(topic.topic_id)
    context.catalog.log.sync()  # a power cut must not take back records that the table has
    units = _units(context, image, config, marks)
    basis = _Basis(marks.erasures, LogVersion(context.catalog.log.log_id, image.version))
    stopped: set[int] = set()
    for first in range(0, len(units), STEP_UNITS):
        yield _step(context, topic, units[first : first + STEP_UNITS], stopped, basis)
    yield from compacting_steps(context, topic)
    yield from expiring_steps(context, topic)


# --- what is to be copied ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """Offsets [start, end) of a partition, their slices, and its mark before they are copied."""

    partition: int
    start: int
    end: int
    slices: Sequence[Slice]
    mark: Mark | None

    @property
    def bytes(self) -> int:
        """About how many bytes of the log the slices have."""
        return sum(one.log_bytes for one in self.slices)

    @property
    def after(self) -> Mark:
        """The partition's mark once the part is in the table."""
        return Mark(self.start if self.mark is None else self.mark.start, self.end)


_Unit = Sequence[_Part]
"""The work of one task: partitions in order."""


class _Basis(NamedTuple):
    """The state that a plan is based on: the number of erasures, and the version of the log."""

    erasures: int
    log_version: LogVersion


def _units(
    context: JobContext, image: TopicImage, config: TopicConfig, marks: Marks
) -> list[_Unit]:
    """Return the units that are due.

    A unit that is not full waits until the table has lacked a record for the target lag.
    """
    due_ms = context.clock.now_ms() - config.table_target_lag_ms
    units: list[_Unit] = []
    held: list[_Part] = []
    size = 0
    for part in _parts(image, marks):
        held.append(part)
        size += part.bytes
        if size >= UNIT_BYTES:
            units.append(held)
            held, size = [], 0
    if any(_lacks_since(part, one, marks) <= due_ms for part in held for one in part.slices):
        units.append(held)
    return units


def _lacks_since(part: _Part, piece: Slice, marks: Marks) -> int:
    """Return the earliest time (ms) from which on the table may lack a record of a slice.

    A merge may join copied records with newer ones. The newer ones came after the last copy.
    """
    is_new = piece.start == piece.segment.base_offset
    copied_ms = 0 if is_new else marks.copied_ms.get(part.partition, 0)
    return max(piece.segment.created_ms, copied_ms)


def _parts(image: TopicImage, marks: Marks) -> Iterator[_Part]:
    """Yield the parts that the table lacks, in order; a part ends when it has UNIT_BYTES."""
    for number, log in sorted(image.partitions.items()):
        mark = marks.partitions.get(number)
        start = log.log_start_offset if mark is None else max(mark.end, log.log_start_offset)
        yield from _cut(log, start, mark)


def _cut(log: PartitionLog, start: int, mark: Mark | None) -> Iterator[_Part]:
    end = log.last_stable_offset
    if start >= end:
        return
    held: list[Slice] = []
    size = 0
    for piece in log.slices(start, end):
        held.append(piece)
        size += piece.log_bytes
        if size >= UNIT_BYTES:
            part = _Part(log.partition, start, piece.end, held, mark)
            yield part
            start, mark, held, size = piece.end, part.after, [], 0
    if start < end:
        yield _Part(log.partition, start, end, held, mark)


# --- copying -------------------------------------------------------------------------------------


def _step(
    context: JobContext,
    topic: TopicDescription,
    units: Sequence[_Unit],
    stopped: set[int],
    basis: _Basis,
) -> Step:
    """Return the step that copies units; partitions in `stopped` have failed in an earlier step."""
    return Step(
        topic=topic.name,
        rows=[
            plan_row("copy", partition=part.partition, span=(part.start, part.end), size=part.bytes)
            for unit in units
            for part in unit
        ],
        execute=partial(_execute, context, topic, units, stopped, basis),
    )


def copied(files: Files, clock: Clock, topic: TopicDescription, unit: _Unit) -> list[WrittenFile]:
    """Write the committed records of a unit to files of the table, synced; return them.

    Raises CorruptRecordError, MissingFileError, and the errors of writing.
    """
    # The decoder is loaded where records are read, not where the copy is planned.
    from sparklog.log_reader.slices import read_slices

    directory = topic_directory(topic)

    def batches() -> Iterator[Any]:
        for part in unit:
            to_batch = BatchMaker(topic.name, part.partition, COLUMNS)
            for records in read_slices(
                files, directory, part.slices, columns=ALL, isolation=READ_COMMITTED
            ):
                yield to_batch(records)

    return write_files(files, table_directory(topic), batches(), clock.now_ms())


def _execute(
    context: JobContext,
    topic: TopicDescription,
    units: Sequence[_Unit],
    stopped: set[int],
    basis: _Basis,
) -> Outcome:
    problems: list[str] = []
    landed: list[_Part] = []
    written: list[WrittenFile] = []
    conflicts = 0
    for unit, answer in _copied(context, topic, units):
        numbers = {part.partition for part in unit}
        if isinstance(answer, SparklogError):
            segments = (one.segment for part in unit for one in part.slices)
            if context.are_gone(topic, segments, answer):
                conflicts += 1
            else:
                problems.append(f"{topic.name}-{unit[0].partition}: {answer}")
        if isinstance(answer, SparklogError) or stopped & numbers:
            stopped |= numbers  # later parts would leave a gap in the table
        else:
            landed += unit
            written += answer
    if landed:
        _commit(context, topic, landed, written, basis)
    return Outcome(
        counts={
            "records": sum(one.rows for one in written),
            "log_bytes": sum(part.bytes for part in landed),
            "files": len(written),
            "bytes": sum(one.bytes for one in written),
            **({"conflicts": conflicts} if conflicts else {}),
        },
        problems=problems,
        notes=[line for part in landed if (line := _gap(topic, part))],
    )


def _copied(
    context: JobContext, topic: TopicDescription, units: Sequence[_Unit]
) -> Iterator[tuple[_Unit, list[WrittenFile] | SparklogError]]:
    """Yield each unit with its files. A unit that fails is tried again, partition by partition."""
    what = f"build table {topic.name}"
    copy = partial(copied, context.files, context.clock, topic)
    for unit, answer in zip(units, context.fleet.map(copy, units, what), strict=True):
        if isinstance(answer, SparklogError) and len(unit) > 1:
            singles = [[part] for part in unit]
            yield from zip(singles, context.fleet.map(copy, singles, what), strict=True)
        else:
            yield unit, answer


def _commit(
    context: JobContext,
    topic: TopicDescription,
    parts: Sequence[_Part],
    written: Sequence[WrittenFile],
    basis: _Basis,
) -> None:
    planned: dict[int, Mark | None] = {}
    for part in parts:
        planned.setdefault(part.partition, part.mark)
    change = Change(
        operation=BUILT,
        planned=planned,
        marks={part.partition: part.after for part in parts},
        written=written,
        parameters={"records": str(sum(one.rows for one in written))},
        erasures=basis.erasures,
        log_version=basis.log_version,
    )
    commit_change(context, topic, change)


def _gap(topic: TopicDescription, part: _Part) -> str | None:
    """Return a note about offsets that were removed before they were copied; None if none were."""
    if part.mark is None or part.mark.end == part.start:
        return None
    return (
        f"{topic.name}-{part.partition}: offsets [{part.mark.end}, {part.start}) were removed from "
        f"the log before they were copied"
    )


def _rebuild_step(context: JobContext, topic: TopicDescription, snapshot: Snapshot) -> Step:
    row = plan_row("empty the table", size=sum(one.bytes for one in snapshot.files.values()))
    return Step(topic=topic.name, rows=[row], execute=partial(_rebuild, context, topic))


def _rebuild(context: JobContext, topic: TopicDescription) -> Outcome:
    """Drop every file, and set each partition's mark back to its log start offset."""
    image = context.catalog.topic_image(topic)
    change = Change(
        operation=REBUILT,
        marks={
            number: Mark(log.log_start_offset, log.log_start_offset)
            for number, log in image.partitions.items()
        },
        log_version=LogVersion(context.catalog.log.log_id, image.version),
    )
    commit_change(context, topic, change)
    return Outcome(counts={"rebuilt": 1})
