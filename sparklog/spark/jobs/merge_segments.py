"""`spark-submit jobs/merge_segments.py`, `python -m sparklog.spark.jobs.merge_segments`."""

import sys
from collections.abc import Sequence

from sparklog.maintenance.merge_segments import merge_segments
from sparklog.spark.jobs.command import run_job

ABOUT = "Join small segments of each partition into sealed ones."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; see sparklog.spark.jobs.command for options and exit codes."""
    return run_job("merge_segments", merge_segments, ABOUT, arguments)


if __name__ == "__main__":
    sys.exit(main())
