"""A read of table and log: which offsets come from where, planned at one version of each.

The table's version is settled first and the log's second. So the log's image knows every record
below the table's marks that was aborted or compacted, and `sparklog.table.stitch` can leave it out.
A table from which `erase` removes records is not read; if an erasure begins while a read is
planned, the read is planned again.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sparklog.config.topic import TopicConfig
from sparklog.errors import OffsetOutOfRangeError, SparklogWarning, UsageError
from sparklog.log_reader import EARLIEST, LATEST
from sparklog.metadata.catalog import Catalog, topic_of
from sparklog.metadata.image import TopicImage
from sparklog.model import TopicDescription, TopicPartition
from sparklog.spark.location import spark_location
from sparklog.spark.offsets import Bound, check_order, parse_bounds
from sparklog.spark.plan import ReadRange, as_of, lost, plan_ranges, refuse_others, with_pins
from sparklog.spark.selection import Selected, selected
from sparklog.spark.splits import join_ranges, split_ranges
from sparklog.storage.files import Files
from sparklog.table.marks import Mark, Marks
from sparklog.table.of_topic import (
    check_copy,
    check_of_log,
    check_sound,
    delta_log,
    table_directory,
)
from sparklog.table.snapshot import Snapshot
from sparklog.table.stitch import Span, stitch

FILES_MAX: Final = 32
"""Spark gets the paths of up to so many files: Delta takes longer to plan a read than Spark to open
them. For more paths Spark starts a job (parallelPartitionDiscovery.threshold is 32)."""
TASK_BYTES: Final = 1024 * 1024
"""Neighbouring small ranges share a task up to about so many bytes of the log, because to start a
task takes longer than to read them."""
_NO_GLOB: Final = re.compile(r"[^{}\[\]*?\\]*")
"""A path that Spark does not take for a pattern."""
GROUPS_MAX: Final = 64
"""Partitions with equal spans form a group. If there are more groups, the filter looks bounds up in
arrays, because Spark does not compile a longer condition."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """The part of a topic's table to read: its address for Spark, version, spans by partition.

    `files` are the addresses of its files; if there are many, it is empty, and delta-spark finds
    them.
    """

    topic: str
    location: str
    version: int
    marks: Marks
    files: Sequence[str] = ()
    spans: Mapping[int, Sequence[Span]] = field(default_factory=dict)

    def condition(self) -> str | None:
        """Return the spans as a condition in SQL; None if they are the whole table."""
        marks = self.marks.partitions
        if all(self.spans.get(number) == [mark] for number, mark in marks.items()):
            return None
        groups: dict[tuple[Span, ...], list[int]] = {}
        for number, spans in self.spans.items():
            whole = spans == [marks[number]]
            groups.setdefault(() if whole else tuple(spans), []).append(number)
        if len(groups) <= GROUPS_MAX:
            return " OR ".join(_group(spans, numbers) for spans, numbers in groups.items())
        return _by_arrays(self.spans)


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """The ranges to read from the log, those of each task, and the parts of tables."""

    log: Sequence[Sequence[ReadRange]]
    tables: Sequence[TablePart]


def plan_auto(catalog: Catalog, options: Mapping[str, Any]) -> HistoryPlan:
    """Return which parts of the ranges come from the log, and which from tables.

    The ranges are those of `plan_read`; raises as `plan_read`.

    A table with foreign changes, or one that `erase` is changing, is not read, with a warning.
    """
    while True:
        found = _planned(catalog, options)
        if found is not None:
            return found


def _planned(catalog: Catalog, options: Mapping[str, Any]) -> HistoryPlan | None:
    """Return a plan; None if an erasure has begun meanwhile."""
    topics = {topic.topic_id: topic for topic in selected(catalog, options).values()}
    tables = {
        topic_id: found
        for topic_id, topic in topics.items()
        if (found := _sound_table(catalog, topic)) is not None
    }
    ranges = plan_ranges(catalog, options)
    image = catalog.image(*topics.values())
    images = {topic_id: topic_of(image, topic) for topic_id, topic in topics.items()}
    tables = {
        topic_id: table
        for topic_id, table in tables.items()
        if _is_of_log(catalog, topics[topic_id], table, images[topic_id])
    }
    isolation = options["isolation.level"]
    by_log: list[ReadRange] = []
    spans: dict[str, dict[int, Sequence[Span]]] = {}
    for one in ranges:
        table = tables.get(one.topic_id)
        mark = None if table is None else table.marks.partitions.get(one.partition)
        if mark is None:
            by_log.append(one)
            continue
        log = images[one.topic_id].partition(one.partition)
        parts = stitch(one.start, one.end, mark, log, isolation)
        by_log += [replace(one, start=start, end=end) for start, end in parts.log]
        if parts.table:
            spans.setdefault(one.topic_id, {})[one.partition] = parts.table
    plan = HistoryPlan(
        _tasks(images, with_pins(catalog, _cut(by_log, options)), options),
        [replace(tables[topic_id], spans=found) for topic_id, found in spans.items()],
    )
    for topic_id in spans:
        snapshot = delta_log(catalog.files, topics[topic_id], catalog.clock).snapshot()
        if snapshot.marks(topic_id).erasing != tables[topic_id].marks.erasing:
            return None
    return plan


def _cut(ranges: Sequence[ReadRange], options: Mapping[str, Any]) -> list[ReadRange]:
    return split_ranges(ranges, options["minPartitions"], options["maxRecordsPerPartition"])


def _tasks(
    images: Mapping[str, TopicImage], ranges: Sequence[ReadRange], options: Mapping[str, Any]
) -> list[list[ReadRange]]:
    """Return the ranges of each task: one, or several small ones if no option sets their number."""
    is_free = options["minPartitions"] is None and options["maxRecordsPerPartition"] is None
    max_bytes = TASK_BYTES if is_free else 0

    def bytes_of(wanted: ReadRange) -> int:
        log, size = images[wanted.topic_id].partition(wanted.partition), 1
        for piece in log.slices(wanted.start, wanted.end):
            size += piece.log_bytes
            if size > max_bytes:
                break
        return size

    return join_ranges(ranges, bytes_of, max_bytes)


def _sound_table(catalog: Catalog, topic: TopicDescription) -> TablePart | None:
    """Return a topic's table, if there is one that is a copy of the log."""
    if not TopicConfig.parse(topic.configs).table_enable:
        return None
    snapshot = delta_log(catalog.files, topic, catalog.clock).snapshot()
    try:
        check_sound(topic, snapshot)
    except UsageError as error:
        warnings.warn(f"{error}; reading the log", SparklogWarning, stacklevel=5)
        return None
    if snapshot.marks(topic.topic_id).is_being_erased:
        warnings.warn(
            f"records are being erased from topic {topic.name!r}, or an erase has failed: run it "
            f"again; reading the log",
            SparklogWarning,
            stacklevel=5,
        )
        return None
    return _part(catalog.files, topic, snapshot) if snapshot.exists else None


def _is_of_log(
    catalog: Catalog, topic: TopicDescription, table: TablePart, image: TopicImage
) -> bool:
    """Whether the table has only records of the log; warns if it has others."""
    try:
        check_of_log(topic, table.marks, image, catalog.log.last_versions())
    except UsageError as error:
        warnings.warn(f"{error}; reading the log", SparklogWarning, stacklevel=5)
        return False
    return True


def _part(files: Files, topic: TopicDescription, snapshot: Snapshot) -> TablePart:
    location = spark_location(files, table_directory(topic))
    paths = [f"{location}/{path}" for path in snapshot.files]
    is_plain = len(paths) <= FILES_MAX and all(_NO_GLOB.fullmatch(path) for path in paths)
    return TablePart(
        topic.name,
        location,
        snapshot.version,
        snapshot.marks(topic.topic_id),
        paths if is_plain else (),
    )


# --- the table alone -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A bound that only the table's rows determine: the first offset at or after a time."""

    part: TablePart
    key: TopicPartition
    timestamp: int


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The tables to read, and each partition's bounds; `ends` are the greatest possible ends."""

    tables: Mapping[str, TablePart]
    starting: Mapping[TopicPartition, Bound]
    ending: Mapping[TopicPartition, Bound]
    ends: Mapping[TopicPartition, int]

    def times(self) -> list[TimeBound]:
        """Return the bounds that are times, each once."""
        found = {
            (key, bound.timestamp)
            for bounds in (self.starting, self.ending)
            for key, bound in bounds.items()
            if bound.timestamp is not None
        }
        return [TimeBound(self.tables[key.topic], key, time) for key, time in sorted(found)]

    def parts(
        self, offsets: Mapping[tuple[TopicPartition, int], int], options: Mapping[str, Any]
    ) -> list[TablePart]:
        """Return the parts to read; `offsets` are the answers to `times` that have one.

        Raises OffsetOutOfRangeError as `plan_read` does.
        """
        spans: dict[str, dict[int, Sequence[Span]]] = {}
        for key, end in self.ends.items():
            mark = self.tables[key.topic].marks.partitions[key.partition]
            span = self._span(key, Mark(mark.start, end), offsets, options)
            if span[0] < span[1]:
                spans.setdefault(key.topic, {})[key.partition] = [span]
        return [replace(self.tables[topic], spans=found) for topic, found in spans.items()]

    def _span(
        self,
        key: TopicPartition,
        mark: Mark,
        offsets: Mapping[tuple[TopicPartition, int], int],
        options: Mapping[str, Any],
    ) -> Span:
        starting, ending = self.starting[key], self.ending[key]
        start = _bounded(starting, mark, offsets.get((key, starting.timestamp or 0)))
        end = _bounded(ending, mark, offsets.get((key, ending.timestamp or 0)))
        is_strict = options["startingOffsetsByTimestampStrategy"] != "latest"
        if start is None and is_strict:
            raise OffsetOutOfRangeError(
                f"{key}: no record of the table is at or after timestamp {starting.timestamp}; "
                f"startingOffsetsByTimestampStrategy=latest would start at the table's end"
            )
        first, last = mark.end if start is None else start, mark.end if end is None else end
        check_order(key, (starting, first), (ending, last))
        if not mark.start <= first <= mark.end or not mark.start <= last <= mark.end:
            problem = (
                f"{key}: offsets [{first}, {last}) are not all in the table, which holds "
                f"[{mark.start}, {mark.end})"
            )
            lost(OffsetOutOfRangeError(problem), fails=options["failOnDataLoss"])
        return max(first, mark.start), min(last, mark.end)


def plan_table(catalog: Catalog, options: Mapping[str, Any]) -> TablePlan:
    """Return the plan of a read that uses the tables alone.

    Raises InvalidOptionError, UnknownTopicError, UsageError for a topic without a table, or with a
    table that is no copy of its log any more.
    """
    wanted = selected(catalog, options)
    tables = {topic.name: _required(catalog, topic) for topic in wanted.values()}
    starting, ending = parse_bounds(options, "starting"), parse_bounds(options, "ending")
    refuse_others(wanted, starting, ending)
    known = [key for key in wanted if key.partition in tables[key.topic].marks.partitions]
    return TablePlan(
        tables,
        {key: starting.of(key) for key in known},
        {key: ending.of(key) for key in known},
        _ends(catalog, options, wanted, known, tables),
    )


def _required(catalog: Catalog, topic: TopicDescription) -> TablePart:
    snapshot = delta_log(catalog.files, topic, catalog.clock).snapshot()
    if not snapshot.exists:
        raise without_table(topic.name)
    check_copy(catalog, topic, snapshot)
    return _part(catalog.files, topic, snapshot)


def without_table(topic: str) -> UsageError:
    """Return the error that a topic has no table."""
    return UsageError(
        f"topic {topic!r} has no table: set its config sparklog.table.enable=true and run the job "
        f"build_table; history=auto reads the log until then"
    )


def _ends(
    catalog: Catalog,
    options: Mapping[str, Any],
    wanted: Selected,
    known: Iterable[TopicPartition],
    tables: Mapping[str, TablePart],
) -> dict[TopicPartition, int]:
    """Return the table end of each partition, as of the requested version."""
    past = as_of(catalog, options)
    ends = {key: tables[key.topic].marks.partitions[key.partition].end for key in known}
    if past is catalog:
        return ends
    image = past.image(*wanted.values())
    return {
        key: max(
            min(end, topic_of(image, wanted[key]).partition(key.partition).last_stable_offset),
            tables[key.topic].marks.partitions[key.partition].start,
        )
        for key, end in ends.items()
    }


def _bounded(bound: Bound, mark: Mark, found: int | None) -> int | None:
    """Return the offset of a bound; None for a time if no record of [start, end) is at or after it.

    `found` may lie at or above the end: the table goes on behind a past version of its log.
    """
    if bound.timestamp is not None:
        return found if found is not None and found < mark.end else None
    return {EARLIEST: mark.start, LATEST: mark.end}.get(bound.offset, bound.offset)


# --- conditions in SQL ---------------------------------------------------------------------------


def _group(spans: Sequence[Span], numbers: Sequence[int]) -> str:
    these = f"`partition` IN ({', '.join(map(str, numbers))})"
    offsets = " OR ".join(f"(`offset` >= {low} AND `offset` < {high})" for low, high in spans)
    return f"({these} AND ({offsets}))" if spans else f"({these})"


def _by_arrays(spans: Mapping[int, Sequence[Span]]) -> str:
    """Return a lookup of bounds by partition; it also covers several spans of one partition."""
    several = {number: found for number, found in spans.items() if len(found) > 1}
    size = max(spans) + 1
    lows, highs = [0] * size, [0] * size
    for number, found in spans.items():
        if number not in several:
            lows[number], highs[number] = found[0]
    low, high = (f"array({', '.join(f'{one}L' for one in all_)})" for all_ in (lows, highs))
    at = "element_at({}, `partition` + 1)"
    by_array = (
        f"(`partition` < {size} AND `offset` >= {at.format(low)} AND `offset` < {at.format(high)})"
    )
    return " OR ".join([by_array, *(_group(found, [n]) for n, found in several.items())])
