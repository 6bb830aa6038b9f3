"""The table of a topic: a second copy of its records, as a Delta table beside the log.

    schema       the table's columns, its protocol and its properties
    marks        per partition the offsets that the table holds, as Delta transaction versions
    snapshot     the table as of one version: pure, made of the actions of its entries
    checkpoint   a snapshot as a Parquet file, read and written
    delta_log    entries read, put if absent, cleaned
    parquet      sorted records to Parquet files in bounded memory, each with its statistics
    footer       which offsets of each partition a file holds
    stitch       which offsets of a read come from the table, and which from the log: pure

A table lies in `table/` of its topic's directory, reader version 1 and writer version 2: any engine
reads it. The log never depends on it.
"""
