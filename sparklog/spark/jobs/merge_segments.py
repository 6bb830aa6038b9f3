"""`spark-submit jobs/merge_segments.py`, `python -m sparklog.spark.jobs.merge_segments`."""

import argparse
import sys
from collections.abc import Sequence

from sparklog.maintenance.merge_segments import merge_segments
from sparklog.spark.jobs.command import run_job

ABOUT = "Join small segments of each partition into sealed ones."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; see sparklog.spark.jobs.command for options and exit codes."""
    return run_job("merge_segments", merge_segments, ABOUT, arguments, add_options)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what this job alone takes."""
    parser.add_argument(
        "--seal",
        action="store_true",
        help="Join and rewrite until every segment carries the log's own offsets.",
    )


if __name__ == "__main__":
    sys.exit(main())
