"""`spark-submit jobs/build_table.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "build_table", *sys.argv[1:]]))
