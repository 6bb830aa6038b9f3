"""Writes: rows to segment files in tasks, and one commit in the driver.

write_job        a write as its driver sees it
write_rows       the tasks of `produce`; cluster: one task for each partition
writers          the writers of the data source
write_task       one task
first_error      the first error of a task ends the job
produce_result   the answer of a produce
"""
