"""A driver that is killed: produces to two topics and dies before or after their one commit.

python -m tests.spark.killed_driver LOG_DIR before|after one|all
"""

import os
import signal
import sys
from typing import Any

from sparklog.metadata.catalog import Catalog
from sparklog.spark import produce, produce_all, session
from tests.spark.conftest import SETTINGS
from tests.spark.frames import by_topic, two_topics


def main(log_dir: str, moment: str, what: str) -> None:
    """Run until killed."""
    spark = session("killed", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    commit_all = Catalog.commit_all

    def deadly(*arguments: Any, **options: Any) -> Any:
        if moment == "after":
            commit_all(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    Catalog.commit_all = deadly  # type: ignore[method-assign] # of this process
    if what == "one":
        produce(two_topics(spark), log_dir, txnAppId="app", txnVersion=1)
    else:
        offsets = {"etl": {"t": {"0": 7}}}
        produce_all(by_topic(spark), log_dir, offsets=offsets, txnAppId="app", txnVersion=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
