"""Consume: a topic's metadata and files to records, and ListOffsets' answers.

    topic      TopicReader: log start, log end, offsets for times, slices of segments
    slices     slices to Arrow records, checked and in the order of the log
    raw        slices to record batches as they lie in the files, with the offsets of the log
    ranges     slices to ranges of files: the whole batches that a fetch answers with
    isolation  which batches a reader of committed records leaves out
    find       the record that an offset or a time leads to
    opened     a segment's files; indexes only as far as they can be trusted
    kept       segments kept open, for a process that makes many lookups
    followed_topics   readers of the newest version, for a process that answers many requests
    poll       waiting for records, many requests at once
    rebuild    indexes made anew from the log, and committed

A slice names a segment and the offsets wanted of it. The reader finds their position in the file,
so planning a read opens no file. `slices` is not imported here: it loads the kernels, which a
command that only asks for offsets does without.
"""

from sparklog.log_reader.topic import EARLIEST, LATEST, MAX_TIMESTAMP, TopicReader

__all__ = ["EARLIEST", "LATEST", "MAX_TIMESTAMP", "TopicReader"]
