"""The jobs' tasks on Spark, and their entry points: `python -m sparklog.spark.jobs.retention …`."""
