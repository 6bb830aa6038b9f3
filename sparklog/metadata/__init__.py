"""The metadata log: the topics, segments and leases of a log dir, in one sequence of commits.

    edit       values: everything one commit does                        pure
    image      the state after a commit; `apply`; PartitionLog           pure
    check      the rules an edit must keep on an image                   pure
    codec      edits as JSON; `entry`: one entry, byte for byte          pure
    tables     rows of runs; `delta`: the actions for Delta's readers    pure
    runs       the folded image as Parquet files
    log        open, follow, commit
    fold       entries become runs; `clean`: old entries go
    catalog    topics by name: the door for readers, writers and administrators

A commit is one entry, put if absent under the next number. Every follower applies it to its image
with the same pure function, so all followers see the same log.
"""
