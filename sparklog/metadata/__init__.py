"""The metadata log: the topics, segments and leases of a log dir, in one sequence of commits.

    edit       values: all changes of one commit                         pure
    image      the state after a commit; `apply`; PartitionLog           pure
    check      the rules that an edit must keep on an image              pure
    plans/     functions from an image to an edit                        pure
    codec/     edits as JSON; `entry`: one entry, byte for byte          pure
    delta      the actions for Delta's readers                           pure
    names      the names of all files below `__cluster_metadata`         pure
    runs/      the folded image as Parquet files
    history/   past entries, and the numbers of every partition as of each
    log        commit; `follow`: open and follow
    fold       entries become runs; `clean`: old entries are deleted
    catalog    topics by name: where readers, writers and administrators begin

A commit puts one entry under the next number, if no entry has it. Every follower applies the entry
to its image by the same pure function, so all followers see the same log.
"""
