"""Vacuum: files that no row names, and that no commit may name any more, are unlinked.

vacuum          the job
vacuum_log_dir  deleted topics, and files that belong to no topic
vacuum_topic    the files of a topic
vacuum_shared   shared segments, and the horizon of the log dir
vacuum_overdue  the steps that are overdue, for gateways
table_garbage   the files of a topic's table
deleting        unlinks files in many tasks
"""
