"""`spark-submit jobs/compact.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.spark.jobs.compact import main

if __name__ == "__main__":
    sys.exit(main())
