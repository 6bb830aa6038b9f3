"""Read topics: from their metadata and files to records, to batches, and to ListOffsets' answers.

    topic      TopicReader: log start, log end, offsets for times, slices of segments
    slices     slices to Arrow records, checked and in the order of the log
    raw        slices to record batches, not decoded, with the offsets of the log
    ranges     slices to ranges of files: the whole batches that a fetch answers with
    isolation  which batches a reader of committed records leaves out
    find       the record that an offset or a time leads to
    opened     a segment's files; an index that is missing or wrong is not used
    key_hashes the hashes of a segment's keys: those of its key index, those of its log
    kept       segments kept open, for a process that makes many lookups
    followed_topics   readers of the newest version, for a process that answers many requests
    poll       fetches that wait for new records, many at once

A slice names a segment and some of its offsets. Their position in the file is found when the slice
is read, so planning a read opens no file. `slices` is not imported here, because it loads the
kernels: a command that only asks for offsets does not need them.
"""

from sparklog.log_reader.topic import TopicReader

__all__ = ["TopicReader"]
