"""`spark-submit jobs/import_log.py LOGDIR --log-dir D [--topic T …]`."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["jobs", "import_log", *sys.argv[1:]]))
