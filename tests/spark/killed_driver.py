"""A driver that is killed: produces to two topics and dies right before the second commit.

python -m tests.spark.killed_driver LOG_DIR
"""

import os
import signal
import sys
from typing import Any

from sparklog.log_writer import commit_write
from sparklog.spark import produce, session
from tests.spark.conftest import SETTINGS
from tests.spark.frames import two_topics


def main() -> None:
    """Run until killed."""
    spark = session("killed", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    commits: list[Any] = []

    def second_is_deadly(*arguments: Any, **options: Any) -> Any:
        if commits:
            os.kill(os.getpid(), signal.SIGKILL)
        commits.append(commit_write(*arguments, **options))
        return commits[-1]

    sys.modules["sparklog.spark.write_job"].commit_write = second_is_deadly  # type: ignore[attr-defined] # of this process
    produce(two_topics(spark), sys.argv[1], txnAppId="app", txnVersion=1)


if __name__ == "__main__":
    main()
