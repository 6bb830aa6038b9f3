"""The group coordinator: members, generations and committed offsets of consumer groups.

    requests    what a shard is asked, and what it answers
    shard       one partition of __consumer_offsets: its groups and offsets
    group       the machine of one group: JoinGroup, SyncGroup …      states, member(s), timers
    offsets     the committed offsets of the groups of a shard
    records     the records of __consumer_offsets, read and written   messages: their encoding
    group_record, batches     a group to its record; records to a batch, and back
    lag         how far a group is behind                   consumer_protocol: what members say
    lag_state   how it goes on, as Burrow tells it          lag_window: the last commits, for it
    group_log   groups for whoever is not their coordinator             alive: whether one lives
    placement   the partition of a group
    offsets_topic             the topic itself: made, claimed, and read

A shard is handed requests, records that were read, and the time; it answers with answers and
records. Whoever runs it appends the records and sends the answers when they are durable.
"""
