"""The table of a topic: a second copy of its records, as a Delta table beside the log.

    schema       the table's columns, its protocol and its properties
    marks        the offsets of each partition that the table holds, as Delta transaction versions
    snapshot     the table as of one version, computed from the actions of its entries (pure)
    checkpoint   encodes a snapshot as a Parquet file, and decodes it
    delta_log    reads entries, puts them if absent, deletes old ones
    parquet      writes sorted records to Parquet files in bounded memory, with statistics
    rows         reads the rows of a file in parts of bounded size
    footer       the offsets of each partition that a file holds
    of_topic     the directory of a topic's table, and sparklog's commits to it
    stitch       decides which offsets of a read come from the table, which from the log (pure)

A table lies in `table/` of its topic's directory. It has Delta's reader version 1 and writer
version 2, so any engine reads it. The log never depends on it.
"""
