"""The state of a log dir as of one version, the edits that change it, and the rules of both. Pure.

edit              all changes of one commit
check             the rules that an edit must keep on an image
image             the state after a commit; `apply` makes the next one
topic_image       one topic of it
partition_log     one partition of it: log start, last stable offset, log end, leader epochs
segments          the live segments of a partition; segment_tables: their columns
producers         the idempotent producers of a partition
transactions      the transactional ids of the log dir
open_transactions the open transactions of a partition
cluster           the gateways, users and producer ids of the log dir
told              texts about edits, for people
"""
