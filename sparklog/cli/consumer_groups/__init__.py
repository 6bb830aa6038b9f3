"""The commands about committed offsets: `groups`, its `reset-offsets`, and `checkpoint`."""
