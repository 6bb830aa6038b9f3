"""A writer of 5,000 partitions in a process that may have 1,024 files open."""

import resource
import sys

import numpy as np
import pyarrow as pa

from sparklog.clock import ManualClock
from sparklog.config import TopicConfig
from sparklog.log_writer import TopicWriter, WriteOptions, WritePlan
from sparklog.model import TopicDescription
from sparklog.record.rows import RecordColumns
from sparklog.storage.local import LocalFiles

PARTITIONS = 5_000
DESCRIPTORS = 1_024
ROUNDS = 2
OWN_FILES = {"sparklog.shared.segment.max.bytes": "0"}


def main(directory: str) -> None:
    """Write a record to every partition, twice, and print how many bytes the segments have."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    clock = ManualClock()
    topic = TopicDescription("t", "t" * 22, PARTITIONS, OWN_FILES, clock.now_ms())
    plan = WritePlan(
        topic=topic,
        config=TopicConfig.parse(topic.configs),
        now_ms=clock.now_ms(),
        options=WriteOptions(),
    )
    writer = TopicWriter(LocalFiles(directory), plan, clock, seed=1)
    values = pa.array([b"x"] * PARTITIONS, pa.binary())
    columns = RecordColumns(values, values, np.full(PARTITIONS, clock.now_ms(), np.int64))
    for _ in range(ROUNDS):
        writer.write(columns, pa.array(range(PARTITIONS), pa.int32()))
    segments = writer.close()
    print(len(segments), sum(segment.log_bytes for segment in segments))


if __name__ == "__main__":
    main(sys.argv[1])
