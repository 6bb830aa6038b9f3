"""Produce: records to segment files, segment files to one commit.

    plan            a topic's image -> WritePlan, which travels to the writers
    topic_writer    rows -> segment files of one writer (a Spark task, a command, a request)
    segment_file    one segment's files, from the first batch to the row in the metadata
    shared_segment  the file for the small partitions of commits
    slice_entry     the rows of slices of shared segments
    checks          refuses rows that a leader would refuse
    own_offsets     rows that keep their own offsets
    commit          the files of all writers -> offsets, in one commit

A writer does not know the offsets that its records will get, unless the rows have offsets of their
own. It numbers its first file of a partition from the log end offset in the plan, and each further
file from the end of the one before. The commit gives the segments their offsets. Nothing is visible
before the commit. If a writer never commits, vacuum deletes its files. `TopicWriter` is loaded when
it is first used: it needs the encoder, and a process that only plans or commits does not.
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
    "shared_bytes_max",
    "takes_all_of_now",
    "write_of",
]


def __getattr__(name: str) -> Any:
    if name != "TopicWriter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sparklog.log_writer.topic_writer import TopicWriter

    return TopicWriter
