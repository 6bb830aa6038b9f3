"""`spark-submit jobs/merge_segments.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "merge_segments", *sys.argv[1:]]))
