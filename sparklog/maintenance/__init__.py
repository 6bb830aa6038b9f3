"""What a broker does in background threads: the scheduled jobs, without an engine.

    job             a job as steps: what it would do to a topic, and doing it
    fleet           where the parts of a step run: this process, or Spark's tasks
    build_index     indexes made anew where they are missing or wrong
    retention       old segments removed
    compact         the latest record of each key kept
    merge_segments  small segments packed into sealed ones
    vacuum          files unlinked that nothing refers to
    verify          files held against the image

What a job decides is a pure function in `sparklog.log`; here it meets files and the metadata log.
Nothing in here knows Spark: `sparklog.spark.jobs` lends the tasks.
"""
