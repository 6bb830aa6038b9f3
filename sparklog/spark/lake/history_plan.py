"""A read of table and log: the offsets from the table and those from the log, at a version of each.

The table's version is chosen first and the log's second. So the log's image knows every record
below the table's marks that was aborted or compacted, and `sparklog.table.stitch` can leave it out.
A table from which `erase` removes records is not read; if an erasure begins while a read is
planned, the read is planned again.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sparklog.config.topic import TopicConfig
from sparklog.errors import SparklogWarning, UsageError
from sparklog.metadata.catalog import Catalog, topic_of
from sparklog.metadata.state.image import TopicImage
from sparklog.model import TopicDescription
from sparklog.spark.lake.table_part import TablePart, part_of
from sparklog.spark.reading.plan import ReadRange, cut, plan_ranges, with_pins
from sparklog.spark.reading.selection import selected
from sparklog.spark.reading.splits import join_ranges
from sparklog.table.of_topic import check_of_log, check_sound, delta_log
from sparklog.table.stitch import Span, stitch

TASK_BYTES: Final = 1024 * 1024
"""Neighbouring small ranges share a task up to about so many bytes of the log, because to start a
task takes longer than to read them."""


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """The ranges to read from the log, those of each task, and the parts of tables."""

    log: Sequence[Sequence[ReadRange]]
    tables: Sequence[TablePart]


def plan_auto(catalog: Catalog, options: Mapping[str, Any]) -> HistoryPlan:
    """Return the ranges to read from the log, and the parts of tables. Raises as `plan_read`.

    Together they are the ranges of `plan_read`. A table with changes of another writer, or one that
    `erase` is changing, is left out with a warning.
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
        _tasks(images, with_pins(catalog, cut(by_log, options)), options),
        [replace(tables[topic_id], spans=found) for topic_id, found in spans.items()],
    )
    for topic_id in spans:
        snapshot = delta_log(catalog.files, topics[topic_id], catalog.clock).snapshot()
        if snapshot.marks(topic_id).erasing != tables[topic_id].marks.erasing:
            return None
    return plan


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
    """Return a topic's table; None without one, and with a warning if it must not be read."""
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
    return part_of(catalog.files, topic, snapshot) if snapshot.exists else None


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
