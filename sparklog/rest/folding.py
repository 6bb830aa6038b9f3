"""The housekeeper of a REST service: folds the metadata log."""

import sys

from sparklog.housekeeper import begin
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.housekeeping import keep_house_for
from sparklog.storage import open_files

if __name__ == "__main__":
    log_dir, level = sys.argv[1:]
    keep_house_for(begin(level), Catalog(open_files(log_dir)).log)
