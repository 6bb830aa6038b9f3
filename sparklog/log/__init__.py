"""The log of one partition: pure functions over bytes and lists of segments, no I/O, no clock."""
