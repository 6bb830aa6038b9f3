"""Handlers of records and of their offsets.

produce, produce_bodies          Produce
fetch, fetch_read, fetch_bodies  Fetch: when it answers, what it reads, its bytes
list_offsets, leader_epochs      ListOffsets, OffsetForLeaderEpoch
delete_records                   DeleteRecords
"""
