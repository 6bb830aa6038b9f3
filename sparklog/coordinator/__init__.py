"""The group coordinator: members, generations and committed offsets of consumer groups.

    requests    what a shard is asked, and what it answers
    shard       one partition of __consumer_offsets: its groups and offsets
    group       the machine of one group: JoinGroup, SyncGroup …      states, member(s), timers
    offsets     the committed offsets of the groups of a shard
    records     the records of __consumer_offsets, read and written   messages: their encoding
    group_record, batches     a group to its record; records to a batch, and back
    lag         how far a group is behind       consumer_protocol: members' topics and partitions
    lag_state   the state of a lag, by Burrow's rules       lag_window: the commits it is based on
    group_log   groups, for callers that are not their coordinator      alive: living gateways
    placement   the partition of a group
    offsets_topic             the topic itself: made, claimed, and read

A shard takes requests, records of the log, and the time; it returns answers and records. Its caller
appends the records, and sends the answers when the records are durable.
"""
