"""`spark-submit jobs/build_index.py`, `python -m sparklog.spark.jobs.build_index`."""

import argparse
import sys
from collections.abc import Sequence

from sparklog.maintenance.build_index import build_index
from sparklog.spark.jobs.command import run_job

ABOUT = "Build indexes that are missing, damaged or left to this job."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; see sparklog.spark.jobs.command for options and exit codes."""
    return run_job("build_index", build_index, ABOUT, arguments, add_options)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what this job alone takes."""
    parser.add_argument(
        "--list", action="store_true", help="List the files: build what is missing or cut, too."
    )
    parser.add_argument("--check", action="store_true", help="Read every log, not only sizes.")
    parser.add_argument("--rebuild", action="store_true", help="Build every index anew.")


if __name__ == "__main__":
    sys.exit(main())
