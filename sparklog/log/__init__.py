"""One partition's log as pure functions over bytes and segment lists: no I/O, no clock."""
