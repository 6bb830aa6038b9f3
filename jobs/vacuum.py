"""`spark-submit jobs/vacuum.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "vacuum", *sys.argv[1:]]))
