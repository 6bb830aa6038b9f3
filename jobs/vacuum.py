"""`spark-submit jobs/vacuum.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.spark.jobs.vacuum import main

if __name__ == "__main__":
    sys.exit(main())
