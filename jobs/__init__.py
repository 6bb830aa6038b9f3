"""The jobs' entry points for `spark-submit jobs/<job>.py` and `python -m jobs.<job>`."""
