"""A part of a topic's table: the files of one version, and a condition in SQL for its offsets."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparklog.model import TopicDescription
from sparklog.spark.lake.location import spark_location
from sparklog.storage.files import Files
from sparklog.table.marks import NO_MARK, Mark, Marks
from sparklog.table.of_topic import table_directory
from sparklog.table.snapshot import Snapshot
from sparklog.table.stitch import Span

FILES_MAX: Final = 32
"""Spark gets the paths of up to so many files: Delta takes longer to plan a read than Spark to open
them. For more paths Spark starts a job (parallelPartitionDiscovery.threshold is 32)."""
_NO_GLOB: Final = re.compile(r"[^{}\[\]*?\\]*")
"""A path that Spark does not take for a pattern."""
GROUPS_MAX: Final = 64
"""Partitions with equal spans form a group. If there are more groups, the filter looks bounds up in
arrays, because Spark does not compile a longer condition."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """The part of a topic's table to read: its address for Spark, version, spans by partition.

    `files` are the addresses of the table's files. It is empty if there are more than FILES_MAX, or
    if an address looks like a pattern: delta-spark finds them then.
    """

    topic: str
    location: str
    version: int
    marks: Marks
    files: Sequence[str] = ()
    spans: Mapping[int, Sequence[Span]] = field(default_factory=dict)

    def mark(self, partition: int) -> Mark:
        """Return the offsets of a partition that the table has; none if it does not know it yet."""
        return self.marks.partitions.get(partition, NO_MARK)

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


def part_of(files: Files, topic: TopicDescription, snapshot: Snapshot) -> TablePart:
    """Return a version of a topic's table as a part without spans."""
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
