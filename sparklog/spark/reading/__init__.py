"""Reads of the log: options to ranges of offsets, and ranges to Arrow batches in tasks.

plan           the ranges of a batch, and the start of a stream
selection      the partitions; offsets: the options for starts and ends
splits         cuts ranges for parallelism; pins: the segments that tasks read
batch_reader   the reader of a batch; ranges_source: ranges that are planned already
stream_reader  the reader of a stream; position, limits, waiting: its parts
groups         Spark as a consumer group
read_task      one task
"""
