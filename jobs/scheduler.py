"""`python -m jobs.scheduler --config scheduler.toml`."""

import sys

from sparklog.spark.jobs.scheduler import main

if __name__ == "__main__":
    sys.exit(main())
