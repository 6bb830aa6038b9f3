"""The group coordinator: members, generations and committed offsets of consumer groups.

    records     the records of __consumer_offsets, read and written   messages: their encoding
    batches     records to a batch, and batches to records
    requests    what a shard is asked, and what it answers
    group       the machine of one group: JoinGroup, SyncGroup …      member, timers
    offsets     the committed offsets of all groups of a shard
    shard       one partition of __consumer_offsets: its groups and offsets
    placement   the partition of a group

No module here reads a clock or a file. A shard is handed requests, records that were read, and the
time; it answers with answers and records. Whoever runs it appends the records and sends the
answers when they are durable.
"""
