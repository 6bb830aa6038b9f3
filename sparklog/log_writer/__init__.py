"""Produce: records to segment files, segment files to one commit.

    plan           a topic's image -> WritePlan, which travels to the writers
    topic_writer   rows -> segment files of one writer (a Spark task, a command, a request)
    segment_file   one segment's files, from the first batch to the row in the metadata
    shared_segment the file for the small partitions of commits; slice_entry: their rows
    checks         rows refused as a leader would
    own_offsets    rows that keep the offsets they bring
    commit         the files of all writers -> offsets, in one commit

A writer does not know the offsets it will get, unless its rows bring them: it numbers its files
from the log end offset that the plan has seen, and goes on where its last file of that partition
ended; the commit gives them their offsets. Nothing is visible before the commit. Vacuum alone
unlinks the files of a writer that never commits. `TopicWriter` is loaded when it is first used: it
alone needs the encoder, which a process that plans or commits does without.
"""

from typing import TYPE_CHECKING, Any

from sparklog.log_writer.checks import check_rows, counted_from, takes_all_of_now
from sparklog.log_writer.commit import PRODUCE, commit_write, in_order, write_of
from sparklog.log_writer.own_offsets import NO_OFFSET, mixed
from sparklog.log_writer.plan import (
    WriteOptions,
    WritePlan,
    config_of,
    plan_write,
    plan_write_on,
    plan_write_to,
    shared_bytes_max,
)
from sparklog.log_writer.segment_file import SegmentFile
from sparklog.log_writer.shared_segment import SharedSegment, SharedSegments

if TYPE_CHECKING:
    from sparklog.log_writer.topic_writer import TopicWriter

__all__ = [
    "NO_OFFSET",
    "PRODUCE",
    "SegmentFile",
    "SharedSegment",
    "SharedSegments",
    "TopicWriter",
    "WriteOptions",
    "WritePlan",
    "check_rows",
    "commit_write",
    "config_of",
    "counted_from",
    "in_order",
    "mixed",
    "plan_write",
    "plan_write_on",
    "plan_write_to",
    "shared_bytes_max",
    "takes_all_of_now",
    "write_of",
]


def __getattr__(name: str) -> Any:
    if name != "TopicWriter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sparklog.log_writer.topic_writer import TopicWriter

    return TopicWriter
