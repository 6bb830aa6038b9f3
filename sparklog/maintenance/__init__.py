"""The scheduled jobs, without an engine: a broker does this work in background threads.

    job             a job as steps: each has rows that describe it, and `execute`
    build_index     indexes made anew where they are missing or wrong
    retention       old segments removed
    abort_transactions  transactions aborted that have timed out
    compact         the latest record of each key kept
    merge_segments  small segments packed into sealed ones
    vacuum          files deleted that nothing refers to
    verify          files compared with the image

The decisions of a job are pure functions in `sparklog.log`; here are its reads, writes and commits.
Nothing in here knows Spark: the parts of a step are works for a `sparklog.fleet`.
"""
