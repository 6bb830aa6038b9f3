"""`spark-submit jobs/import_log.py LOGDIR --log-dir D [--topic T …]`."""

import sys

from sparklog.spark.jobs.import_log import main

if __name__ == "__main__":
    sys.exit(main())
