"""The metadata log: the topics, segments and leases of a log dir, in one sequence of commits.

    edit       values: all changes of one commit                         pure
                 cluster, producers, transactions, open_transactions: their parts
    image      the state after a commit; `apply`                         pure
                 topic_image, partition_log, segments, segment_tables: its parts
    check      the rules that an edit must keep on an image              pure
    plans/     functions from an image to an edit                        pure
    codec/     edits as JSON; `entry`: one entry, byte for byte          pure
    delta      the actions for Delta's readers                           pure
    names      the names of all files below `__cluster_metadata`         pure
    entries    the entries as files: read one, put one
    runs/      the folded image as Parquet files
    history/   past entries, and the numbers of every partition as of each; `past`: topics
    log        commit; `follow`: open and follow
                 batch (requests that share an entry), turn (committers of one machine)
    fold       entries become runs; `clean`: old entries are deleted
                 housekeeping (when), marks (from where entries are there), leftovers
    repair     files that are damaged; `diagnosis`: which; `restore`: a copy of a log dir
    leases     claims, so that only one process does a piece of work
    catalog    topics by name: where readers, writers and administrators begin

A commit puts one entry under the next number, if no entry has it. Every follower applies the entry
to its image by the same pure function, so all followers see the same log.
"""
