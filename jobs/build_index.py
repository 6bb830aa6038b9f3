"""`spark-submit jobs/build_index.py --log-dir D [--topic T …] [--dry-run]`."""

import sys

from sparklog.spark.jobs.build_index import main

if __name__ == "__main__":
    sys.exit(main())
