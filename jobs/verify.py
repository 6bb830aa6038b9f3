"""`spark-submit jobs/verify.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.spark.jobs.verify import main

if __name__ == "__main__":
    sys.exit(main())
