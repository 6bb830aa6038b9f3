"""`python -m jobs.scheduler --config scheduler.toml`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "scheduler", *sys.argv[1:]]))
