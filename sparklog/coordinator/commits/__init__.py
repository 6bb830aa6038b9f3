"""The committed offsets of groups.

offsets         the offsets of the groups of a shard: commits, deletions, expiry
offset_checks   checks of a commit that need the topics alone
stale_offsets   offsets of a deleted topic
strange_epochs  leader epochs that a partition has not had
offsets_topic   __consumer_offsets itself: created, claimed, and read
"""
