"""The housekeeper of a REST service: folds the metadata log."""

import sys

from sparklog.metadata.catalog import Catalog
from sparklog.metadata.upkeep.housekeeping import keep_house_while
from sparklog.service.housekeeper import Service, work_for
from sparklog.storage import open_files


def keep(log_dir: str, service: Service) -> None:
    """Keep house as long as the service wants it. Raises as `keep_house_while`."""
    keep_house_while(service.waits, Catalog(open_files(log_dir)).log)


if __name__ == "__main__":
    path, level = sys.argv[1:]
    work_for("rest", level, lambda service: keep(path, service))
