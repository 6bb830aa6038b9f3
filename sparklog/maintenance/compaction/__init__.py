"""Compaction: the latest record of each key stays (`cleanup.policy=compact`).

compact        the job
due            which partitions are due, and which segments a round reads
superseded     which records have a later one with their key
aborted        records of aborted transactions, which are not compared
spent_markers  markers of transactions without a record left
rewrite        writes the remaining records to one sealed segment
"""
