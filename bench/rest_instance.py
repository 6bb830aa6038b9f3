"""One instance of the REST service by itself: its start, when it sees a commit, its memory."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import lookups
from bench.figures import Bar, Figure
from bench.rest_load import ROOT, Connection, each_get, get, load, resident_mb, service
from sparklog.clock import SystemClock
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog
from sparklog.record.rows import RecordColumns
from sparklog.storage import open_files

COMMITS = 20
PATH = "/topics/bench/partitions/{}/offsets"
IMPORTS = """
import sparklog.rest.app, sparklog.rest.server, uvloop
from sparklog.log_reader import find, kept, raw, slices
from bench.rest_load import resident_mb
print(resident_mb("self"))
"""
"""A process that has imported what the service has, kernels too, and does nothing."""


def cold_start(log_dir: Path) -> Figure:
    """From the start of the process to the answer to its first lookup."""
    started = time.perf_counter()
    with service(log_dir) as (address, _):
        load(address, get(f"{PATH.format(0)}?timestamp=5"), 1, 1)
        seconds = time.perf_counter() - started
    return Figure("REST", "cold start, to the first lookup answered", seconds, "s", Bar(most=2))


def visibility(address: str, log_dir: Path) -> Figure:
    """From the acknowledgement of a commit of this process to the answer that shows it; the worst.

    Asked again and again, by a time that only the new record has reached.
    """
    catalog = Catalog(open_files(str(log_dir)))

    async def run() -> list[float]:
        connection = await Connection.to(address)
        seconds = []
        for number in range(COMMITS):
            timestamp = 2**40 + number
            _commit(catalog, timestamp)
            committed = time.perf_counter()
            request = get(f"{PATH.format(3)}?timestamp={timestamp}")(0)
            while json.loads(await connection.ask(request))["timestamp"] != timestamp:
                pass
            seconds.append(time.perf_counter() - committed)
        connection.close()
        return seconds

    worst = max(asyncio.run(run())) * 1000
    name = f"another process's commit seen, worst of {COMMITS}"
    return Figure("REST", name, worst, "ms", Bar(most=50))


def _commit(catalog: Catalog, timestamp: int) -> None:
    """One record in partition 3 of `bench`."""
    plan = plan_write(catalog, "bench", WriteOptions())
    writer = TopicWriter(catalog.files, plan, SystemClock(), seed=0)
    value = pa.array([b"x"])
    rows = RecordColumns(value, value, np.array([timestamp]))
    writer.write(rows, pa.array([3], pa.int32()))
    commit_write(catalog, plan, writer.close())


def many_segments(log_dir: Path) -> Figure:
    """Memory of an instance that has looked all over 50,000 segments, above its imports."""
    first_ms = lookups.fill(log_dir)
    step = lookups.SEGMENTS // 1000
    with service(log_dir) as (address, process):
        path = PATH.format(0)
        load(address, each_get(lambda n: f"{path}/{n * step}"), 4, 250)
        load(address, each_get(lambda n: f"{path}?timestamp={first_ms + n * step * 1000}"), 4, 250)
        used = resident_mb(process)
    command = [sys.executable, "-c", IMPORTS]
    alone = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    name = f"memory with {lookups.SEGMENTS:,} segments, above imports"
    return Figure("REST", name, used - float(alone), "MB", Bar(most=100))
