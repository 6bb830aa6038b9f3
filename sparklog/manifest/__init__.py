"""Which segments exist: two kinds of Delta table, their commit loop, and their snapshots."""
