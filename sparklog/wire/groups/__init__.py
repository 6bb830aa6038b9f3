"""The consumer groups of an instance.

coordinators    the instance of each group, and the shards that this instance owns
owned_shard     one such shard: requests, appends, timers
others_offsets  offsets that others append to its partition
"""
