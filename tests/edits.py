"""Segments and edits for tests of the metadata: rows of files that nobody looks at."""

import os
from typing import Any

from sparklog.clock import ManualClock
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, segment_name, uuid7
from sparklog.metadata.catalog import Catalog, Landed, TopicPlan
from sparklog.metadata.state.edit import TopicEdit
from sparklog.metadata.state.image import TopicImage, at_log_end
from sparklog.model import SegmentEntry, TopicDescription

NOW_MS = ManualClock().now_ms()


def segment(
    partition: int = 0, records: int = 10, made_ms: int = NOW_MS, **columns: Any
) -> SegmentEntry:
    """A segment of a new file, numbered from 0 as a writer does it."""
    name = segment_name(0, uuid7(made_ms, os.urandom(10)), LOG_SUFFIX)
    values = {"log_path": f"t-{partition}/{name}", "log_bytes": 100, "created_ms": made_ms}
    return SegmentEntry(
        **{
            "partition": partition,
            "base_offset": 0,
            "next_offset": records,
            "file_base_offset": 0,
            **values,
            **columns,
        }
    )


def at(base_offset: int, entry: SegmentEntry) -> SegmentEntry:
    """The segment with its offsets given."""
    return entry._replace(base_offset=base_offset, next_offset=base_offset + entry.offset_span)


def indexed(entry: SegmentEntry, made_ms: int = NOW_MS) -> SegmentEntry:
    """The segment with a new index."""
    name = segment_name(0, uuid7(made_ms, os.urandom(10)), INDEX_SUFFIX)
    return entry._replace(index_path=f"t-{entry.partition}/{name}", index_bytes=8)


def appending(*entries: SegmentEntry, **edit: Any) -> TopicPlan:
    """A plan that puts the segments at the log end, whatever that is by then."""
    return lambda topic: TopicEdit(segments=at_log_end(topic, entries), **edit)


def append(
    catalog: Catalog, topic: TopicDescription, *entries: SegmentEntry, **transaction: Any
) -> Landed:
    """Append in one commit."""
    return catalog.commit(topic, appending(*entries), operation="PRODUCE", **transaction)


def edited(catalog: Catalog, topic: TopicDescription, **edit: Any) -> Landed:
    """Commit an edit that asks nothing of the image."""
    return catalog.commit(topic, lambda _: TopicEdit(**edit), operation="TEST")


def spans(image: TopicImage, partition: int = 0) -> list[tuple[int, int]]:
    """The live segments of a partition: [(base offset, next offset)]."""
    return [(entry.base_offset, entry.next_offset) for entry in image.segments(partition)]
