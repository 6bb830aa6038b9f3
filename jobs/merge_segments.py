"""`spark-submit jobs/merge_segments.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.spark.jobs.merge_segments import main

if __name__ == "__main__":
    sys.exit(main())
