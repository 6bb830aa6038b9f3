"""`spark-submit jobs/verify.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "verify", *sys.argv[1:]]))
