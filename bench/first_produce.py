"""`python -m bench.first_produce PEER ADDRESS TOPIC`: seconds of the first produce of a driver.

ADDRESS is a log dir that has the topic, or a broker's. The session runs already; everything that
the first produce loads or compiles is in the figure.
"""

import sys
import time
from pathlib import Path

from bench import connector, ours
from bench.spark import Variant, rows, spark_session

LOAD = Variant("first", records=1_000_000)


def main(peer: str, address: str, topic: str) -> None:
    """Prints the seconds."""
    with spark_session() as spark:
        df = rows(spark, LOAD)
        start = time.perf_counter()
        if peer == "sparklog":
            ours.produce(df, Path(address), LOAD)
        else:
            connector.produce(df, address, topic, LOAD)
        print(time.perf_counter() - start)


if __name__ == "__main__":
    main(*sys.argv[1:])
