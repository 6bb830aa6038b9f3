"""`python -m sparklog.spark.jobs.retention --log-dir D [--topic T …] [--dry-run]`."""

import sys
from collections.abc import Sequence

from sparklog.maintenance.retention import retention
from sparklog.spark.jobs.command import run_job

ABOUT = "Remove segments that are too old, too many or below the log start."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job, return its exit code."""
    return run_job("retention", retention, ABOUT, arguments)


if __name__ == "__main__":
    sys.exit(main())
