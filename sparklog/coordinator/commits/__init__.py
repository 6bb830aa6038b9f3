"""The committed offsets of groups.

offsets         the offsets of the groups of a shard: commits, deletions, expiry
offset_checks   checks of a commit that need the topics alone
stale_offsets   offsets that were committed before their topic was made
strange_epochs  leader epochs that a partition has not had
"""
