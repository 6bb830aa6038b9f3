"""A log dir of a million segments, made as a fold leaves it, and what opening it takes."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparklog.clock import SystemClock
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.runs.rows import in_order
from sparklog.metadata.runs.tables import RUN_SCHEMA, padded
from sparklog.metadata.state.edit import Edit, FoldEdit, TopicEdit
from sparklog.metadata.upkeep.fold import publish
from sparklog.model import TopicDescription
from sparklog.storage.open import open_files

TOPICS = 1_000
PARTITIONS = 10
SEGMENTS = 1_000_000
RECORDS = 1_000
NOW_MS = 1_795_000_000_000

_ALONE = """
import json, os, resource, sys, time
from sparklog.clock import SystemClock
from sparklog.metadata.log import MetadataLog
from sparklog.storage.open import open_files
log = MetadataLog(open_files(sys.argv[1]), SystemClock())
start = time.perf_counter()
image = log.image()
ids = list(image.topics)
log.image(ids if sys.argv[2] == "open all" else ids[:1])
seconds = time.perf_counter() - start
pages = int(open("/proc/self/statm").read().split()[1])
print(json.dumps([seconds, pages * os.sysconf("SC_PAGE_SIZE") / 1e6]))
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """The time that opening took, and the memory of the process after it."""

    seconds: float
    megabytes: float


def measured_alone(what: str, folder: Path) -> Opened:
    """Open one topic or all in a process of its own."""
    command = [sys.executable, "-c", _ALONE, str(folder), what]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Opened(*json.loads(done.stdout))


def write_large(folder: Path, topics: int, segments: int) -> list[str]:
    """Make a log dir with one run that holds so many segments; return the topics' ids."""
    log = MetadataLog.create(open_files(str(folder)), SystemClock())
    described = [_description(number) for number in range(topics)]
    edits = {one.topic_id: TopicEdit(description=one) for one in described}
    image = log.commit(lambda _: Edit(operation="CREATE TOPICS", topics=edits)).image
    stamp = image.stamp
    horizon = {"kind": ["horizon"], "name": [stamp.entry_id], "used_ms": [stamp.timestamp_ms]}
    tables = [
        _table({**horizon, "horizon_ms": [0], "level": [1]}, stamp.version),
        _table(_topic_rows(described, stamp.version), stamp.version),
        _table(_partition_rows(described, segments), stamp.version),
        _table(_segment_rows(described, segments), stamp.version),
    ]
    run = log.runs.write(in_order(pa.concat_tables(tables)), (0, stamp.version), NOW_MS)
    made = FoldEdit(stamp.version, -1, (run,))
    folded = log.commit(lambda _: Edit(operation="FOLD", fold=made))
    publish(log, folded.image.version, made)
    return [one.topic_id for one in described]


def _description(number: int) -> TopicDescription:
    return TopicDescription(f"topic-{number}", f"{number:022}", PARTITIONS, {}, NOW_MS)


def _table(columns: dict[str, object], version: int) -> pa.Table:
    arrays = {
        name: pa.array(values, RUN_SCHEMA.field(name).type) for name, values in columns.items()
    }
    count = len(next(iter(arrays.values())))
    arrays["as_of"] = pa.array(np.full(count, version))
    arrays["gone"] = pa.array(np.zeros(count, np.bool_))
    return padded(pa.table(arrays), RUN_SCHEMA)


def _topic_rows(described: list[TopicDescription], version: int) -> dict[str, object]:
    return {
        "kind": ["topic"] * len(described),
        "topic_id": [one.topic_id for one in described],
        "name": [one.name for one in described],
        "partition_count": [one.num_partitions for one in described],
        "created_ms": [one.created_ms for one in described],
        "version": [version] * len(described),
    }


def _partition_rows(described: list[TopicDescription], segments: int) -> dict[str, object]:
    count = len(described) * PARTITIONS
    zeros = np.zeros(count, np.int64)
    return {
        "kind": ["partition"] * count,
        "topic_id": [one.topic_id for one in described for _ in range(PARTITIONS)],
        "partition": np.tile(np.arange(PARTITIONS, dtype=np.int32), len(described)),
        "log_start_offset": zeros,
        "log_end_offset": np.full(count, segments // count * RECORDS),
        "leader_epoch": zeros,
        "cleaner_offset": zeros,
        "imported_end_offset": zeros,
    }


def _segment_rows(described: list[TopicDescription], segments: int) -> dict[str, object]:
    each = segments // (len(described) * PARTITIONS)
    partition = np.tile(np.repeat(np.arange(PARTITIONS, dtype=np.int32), each), len(described))
    base = np.tile(np.arange(each, dtype=np.int64) * RECORDS, len(described) * PARTITIONS)
    count = len(base)
    random = os.urandom(10 * count).hex()
    paths = [
        f"t-{partition[at]}/{base[at]:020}.0192f0c4-a7b2-7{random[20 * at : 20 * at + 3]}-"
        f"9{random[20 * at + 3 : 20 * at + 6]}-{random[20 * at + 6 : 20 * at + 18]}.log"
        for at in range(count)
    ]
    return {
        "kind": pa.repeat("segment", count),
        "topic_id": np.repeat([one.topic_id for one in described], each * PARTITIONS),
        "partition": partition,
        "base_offset": base,
        "next_offset": base + RECORDS,
        "file_base_offset": base,
        "log_path": paths,
        "log_position": np.zeros(count, np.int64),
        "log_bytes": np.random.default_rng(1).integers(10_000, 1_000_000, count),
        "index_path": [""] * count,
        "index_bytes": np.full(count, 184),
        "time_index_path": [""] * count,
        "time_index_bytes": np.full(count, 276),
        "log_crc32c": np.random.default_rng(2).integers(0, 2**32, count),
        "record_count": np.full(count, RECORDS),
        "batch_count": np.full(count, 10),
        "min_timestamp": NOW_MS + base,
        "max_timestamp": NOW_MS + base + RECORDS,
        "max_timestamp_delta": np.full(count, RECORDS - 1),
        "codec": np.zeros(count, np.int32),
        "max_leader_epoch": np.zeros(count, np.int32),
        "transactional": np.zeros(count, np.bool_),
        "created_ms": NOW_MS + base,
    }
