"""The jobs on Spark: their tasks, and the scheduler that runs them at intervals."""
