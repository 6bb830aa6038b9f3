"""A read of tables alone: the version of each table, and the bounds of each partition.

Only the rows of a table tell where a time is in it. So the plan has two steps: Spark answers the
bounds that are times (`TablePlan.times`), and `TablePlan.parts` takes the answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparklog.errors import OffsetOutOfRangeError, UsageError
from sparklog.metadata.catalog import Catalog, topic_of
from sparklog.model import EARLIEST, LATEST, TopicDescription, TopicPartition
from sparklog.spark.lake.table_part import TablePart, part_of
from sparklog.spark.reading.offsets import Bound, check_order, parse_bounds
from sparklog.spark.reading.plan import as_of, lost, refuse_others
from sparklog.spark.reading.selection import Selected, selected
from sparklog.table.marks import Mark
from sparklog.table.of_topic import check_copy, delta_log
from sparklog.table.stitch import Span


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
            mark = self.tables[key.topic].mark(key.partition)
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
        if not mark.start <= first <= mark.end or not mark.start <= last <= mark.end:
            problem = (
                f"{key}: offsets [{first}, {last}) are not all in the table, which holds "
                f"[{mark.start}, {mark.end})"
            )
            lost(OffsetOutOfRangeError(problem), fails=options["failOnDataLoss"])
        check_order(key, (starting, first), (ending, last))
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
    return TablePlan(
        tables,
        {key: starting.of(key) for key in wanted},
        {key: ending.of(key) for key in wanted},
        _ends(catalog, options, wanted, tables),
    )


def _required(catalog: Catalog, topic: TopicDescription) -> TablePart:
    snapshot = delta_log(catalog.files, topic, catalog.clock).snapshot()
    if not snapshot.exists:
        raise without_table(topic.name)
    check_copy(catalog, topic, snapshot)
    return part_of(catalog.files, topic, snapshot)


def without_table(topic: str) -> UsageError:
    """Return the error that a topic has no table."""
    return UsageError(
        f"topic {topic!r} has no table: set its config sparklog.table.enable=true and run the job "
        f"build_table; history=auto reads the log until then"
    )


def _ends(
    catalog: Catalog, options: Mapping[str, Any], wanted: Selected, tables: Mapping[str, TablePart]
) -> dict[TopicPartition, int]:
    """Return the table end of each partition, as of the requested version."""
    past = as_of(catalog, options)
    ends = {key: tables[key.topic].mark(key.partition).end for key in wanted}
    if past is catalog:
        return ends
    image = past.image(*wanted.values())
    return {
        key: max(
            min(end, topic_of(image, wanted[key]).partition(key.partition).last_stable_offset),
            tables[key.topic].mark(key.partition).start,
        )
        for key, end in ends.items()
    }


def _bounded(bound: Bound, mark: Mark, found: int | None) -> int | None:
    """Return the offset of a bound; None for a time if no record of [start, end) is at or after it.

    `found` may be at or above the end: the table has more than a past version of its log.
    """
    if bound.timestamp is not None:
        return found if found is not None and found < mark.end else None
    return {EARLIEST: mark.start, LATEST: mark.end}.get(bound.offset, bound.offset)
