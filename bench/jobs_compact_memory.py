"""The memory of compacting fifty million distinct keys. By hand, for it writes 12 GB and waits:

    python -m bench --only jobs_compact_memory

All records are dirty and each has its own key, so nothing is dropped: every key is indexed, sent to
a reducer, looked up and written again. Memory is that of this process, the JVM, whose heap is
bounded, and all Python workers at the same moment; pages that they share count once.
"""

import shutil
from typing import Final

import numpy as np

from bench.figures import Bar, Figure
from bench.jobs_compact import RECORD_BYTES, SEGMENT_BYTES, compact_once
from bench.keyed_log import append, new_log, topic_image
from bench.processes import watch_all
from bench.settings import Settings
from bench.spark import spark_session

TIMES: Final = 5
"""Distinct keys for each of `--records`: fifty million when nobody says otherwise."""
GIB: Final = 1 << 30
HEAP: Final = "1g"


def run(settings: Settings) -> list[Figure]:
    """GiB of all processes at most while the job runs."""
    keys = TIMES * settings.records
    folder = settings.directory / "compact-memory"
    catalog = new_log(folder, SEGMENT_BYTES)
    parts = max(1, keys * RECORD_BYTES // SEGMENT_BYTES)
    append(catalog, np.array_split(np.arange(keys, dtype=np.int64), parts))
    conf = {"spark.jars": "", "spark.driver.memory": HEAP}
    with spark_session(**conf) as spark, watch_all() as total:
        compact_once(spark, catalog)
    left = sum(entry.record_count or 0 for entry in topic_image(catalog).segments(0))
    if left != keys + 1:
        raise RuntimeError(f"{left} records are left, not {keys + 1}")
    shutil.rmtree(folder)
    name = f"compaction of {keys:,} distinct keys, all processes"
    return [Figure("memory of jobs", name, total.bytes / GIB, "GiB", Bar(most=4))]
