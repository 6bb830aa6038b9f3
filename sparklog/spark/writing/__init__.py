"""Writes: rows to segment files in tasks, and one commit in the driver.

write_job        a write as its driver sees it
write_rows       the tasks of `produce`
writers          the writers of the data source
write_task       one task
first_error      the first error ends the job; job_accumulator carries it
produce_result   the answer of a produce
"""
