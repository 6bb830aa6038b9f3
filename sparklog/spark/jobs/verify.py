"""`spark-submit jobs/verify.py`, `python -m sparklog.spark.jobs.verify`."""

import argparse
import sys
from collections.abc import Sequence

from sparklog.maintenance.verify import verify
from sparklog.spark.jobs.command import run_job

ABOUT = "Check the metadata log, files, logs and indexes."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; see sparklog.spark.jobs.command for options and exit codes."""
    return run_job("verify", verify, ABOUT, arguments, add_options)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what this job alone takes."""
    parser.add_argument(
        "--repair",
        action="store_true",
        help="Rebuild indexes; put damaged logs aside and go on with their sound batches.",
    )
    parser.add_argument("--records", action="store_true", help="Decode every record, too.")


if __name__ == "__main__":
    sys.exit(main())
