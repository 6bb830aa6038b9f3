"""`spark-submit jobs/retention.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.spark.jobs.retention import main

if __name__ == "__main__":
    sys.exit(main())
