"""The entry point of `compact`: `python -m sparklog.spark.jobs.compact --log-dir D`."""

import argparse
import sys
from collections.abc import Sequence

from sparklog.maintenance.compact import compact
from sparklog.spark.jobs.command import run_job

ABOUT = "Keep the latest record of each key of compacted topics."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what this job alone takes."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="Compact whatever is not compacted yet, whatever min.cleanable.dirty.ratio says.",
    )
    parser.add_argument(
        "--reindex",
        action="store_true",
        help="Read the keys of clean segments, whose key indexes may be damaged, and index anew.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    return run_job("compact", compact, ABOUT, arguments, add_options)


if __name__ == "__main__":
    sys.exit(main())
