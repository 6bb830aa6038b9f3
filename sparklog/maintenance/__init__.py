"""The scheduled jobs, independent of Spark. A broker does this work in background threads.

    job                 a job as steps: each has rows that describe it, and `execute`
    registry            the jobs by name
    runner              runs a job, each step under a lease (`leases`); `timetable`: when it is due
    build_index         builds missing indexes, and rebuilds wrong ones
    abort_transactions  aborts transactions that have timed out
    retention           removes old segments
    compaction/         keeps the latest record of each key
    merging/            packs small segments into sealed ones
    build_table         copies records to the tables of topics; `table_files`: merges their files
    vacuuming/          deletes files that nothing refers to
    verification/       compares files with the image, and repairs them

The decisions of a job are pure functions in `sparklog.log`; its reads, writes and commits are here.
A step passes its parts to a `sparklog.fleet`, which runs them on Spark or in this process.
"""
