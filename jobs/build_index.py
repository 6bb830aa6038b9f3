"""`spark-submit jobs/build_index.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "build_index", *sys.argv[1:]]))
