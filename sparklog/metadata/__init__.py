"""The metadata log: the topics, segments and leases of a log dir, in one sequence of commits.

    state/     edit: all changes of one commit; image: the state after it;
               check: the rules that an edit must keep on an image           pure
    plans/     functions from an image to an edit                            pure
    codec/     edits as JSON, and an entry byte for byte                     pure
    delta      the actions for Delta's readers                               pure
    names      the names of all files below `__cluster_metadata`             pure
    entries    the entries as files: read one, put one; `marks`: where they begin
    runs/      the folded image as Parquet files
    follow     opens the log, and applies its entries as they come
    log        commits; `batch`: requests that share an entry; `turn`: committers of one machine
    history/   past entries, and the numbers of every partition as of each
    upkeep/    entries become runs, old files are deleted, damaged ones repaired
    leases     claims, so that only one process does a piece of work
    catalog    topics by name: where readers, writers and administrators begin; `past`: topics as
               of one commit

A commit puts one entry under the next number, if no entry has it. Every follower applies the entry
to its image by the same pure function, so all followers see the same log.
"""
