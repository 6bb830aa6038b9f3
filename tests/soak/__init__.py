"""Many processes on one log, killed at random; and the checker that reads what they saw."""
