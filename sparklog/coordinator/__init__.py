"""The group coordinator: members, generations and committed offsets of consumer groups.

    requests        requests to a shard, and its answers
    shard           one partition of __consumer_offsets: its groups and offsets
    classic/        groups of the classic protocol: JoinGroup, SyncGroup …
    consumer/       groups of the consumer protocol (KIP-848); `assignors`: who reads which
    any_group       the answers that groups of both protocols have; `states`, `timers`
    commits/        the committed offsets of groups
    records         the records of __consumer_offsets; `messages` (encoding), `batches`
    placement       the partition of a group
    offsets_topic   __consumer_offsets itself: created, claimed, and read
    group_log       groups, for processes that are not their coordinator; `alive`: the signs of
                      life of gateways; `held_groups`: offsets in open transactions
    lag             how far a group is behind; `lag_state` (Burrow's rules), `lag_window` (commits)

A shard takes requests, records of the log, and the time; it returns answers and records. Its caller
appends the records, and sends the answers when the records are durable. A shard and its parts read
no file, no image and no clock.
"""
