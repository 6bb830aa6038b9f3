"""`spark-submit jobs/erase.py --log-dir D --topic T --key-file F [--dry-run]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "erase", *sys.argv[1:]]))
