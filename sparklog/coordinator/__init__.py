"""The group coordinator: members, generations and committed offsets of consumer groups.

    requests        requests to a shard, and its answers
    shard           one partition of __consumer_offsets: its groups and offsets
    any_group       what groups of both protocols answer
    group           a group of the classic protocol: JoinGroup, SyncGroup …
                      member(s), states, timers; group_checks; group_record (its record)
                      consumer_protocol (topics and partitions in the bytes of its members)
    consumer_group  a group of the consumer protocol (KIP-848)
                      consumer_member, subscriptions, assignors, consumer_requests,
                      consumer_records (its records)
    offsets         the committed offsets of the groups of a shard
                      offset_checks; stale_offsets (of deleted topics)
                      strange_epochs (leader epochs that a partition has not had)
    records         the records of __consumer_offsets; messages (encoding), batches
    lag             how far a group is behind; lag_state (Burrow's rules), lag_window (commits)
    group_log       groups, for processes that are not their coordinator
                      alive (the signs of life of gateways)
    placement       the partition of a group
    offsets_topic   the topic itself: created, claimed, and read

A shard takes requests, records of the log, and the time; it returns answers and records. Its caller
appends the records, and sends the answers when the records are durable.
"""
