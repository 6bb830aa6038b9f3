"""`spark-submit jobs/abort_transactions.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "abort_transactions", *sys.argv[1:]]))
