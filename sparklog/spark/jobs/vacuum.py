"""`python -m sparklog.spark.jobs.vacuum --log-dir D [--topic T …] [--dry-run]`."""

import argparse
import sys
from collections.abc import Sequence

from sparklog.maintenance.vacuum import vacuum
from sparklog.spark.jobs.command import run_job

ABOUT = "Delete files that nothing needs any more, and what deleted topics have left."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job, return its exit code."""
    return run_job("vacuum", vacuum, ABOUT, arguments, add_options)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what this job alone takes."""
    parser.add_argument(
        "--drop-unknown",
        metavar="DIRECTORY",
        action="append",
        default=[],
        help="Erase this directory of a topic that the metadata log does not know; again for more.",
    )


if __name__ == "__main__":
    sys.exit(main())
