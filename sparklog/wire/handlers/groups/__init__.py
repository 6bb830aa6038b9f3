"""Handlers of consumer groups and of their offsets.

group_members    the members of a classic group
consumer_groups  groups of the consumer protocol
offset_commit    commits offsets
group_offsets    returns committed offsets
txn_offsets      commits offsets with a transaction
group_admin      finds, lists and describes groups
group_deletes    deletes groups, or their offsets
"""
